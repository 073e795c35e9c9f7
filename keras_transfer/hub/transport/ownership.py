"""Rejects files that other users of the machine can write, since a module's graph can do what a program can."""

import os
import stat

from keras_transfer.hub.transport.errors import HubError


def check_ownership(paths):
    """Raises a HubError if a user other than this one and root can write one of the files or folders.

    Members of the group are other users, except in a group of one user, which many systems create for each user. On
    systems other than POSIX, nothing is checked.

    Args:
        paths: Iterable of paths. Those that do not exist are skipped.
    """
    if os.name != "posix":
        return
    for path in paths:
        try:
            status = os.stat(path)
        except FileNotFoundError:  # No other user has put anything there.
            continue
        mode, uid = status.st_mode, status.st_uid
        shared = mode & stat.S_IWOTH or (mode & stat.S_IWGRP and not _is_group_of_one(status.st_gid, uid))
        if shared or uid not in (os.geteuid(), 0):
            raise HubError(
                "Other users must not be able to write the cache of modules, because the graph of a module can execute "
                "arbitrary code. Delete it, or pass another `cache_dir` (or set TFHUB_CACHE_DIR). If you trust what is "
                "in it, pass the path of the module's folder instead of its URL. "
                f"Received: {path} of the user {uid} with the permissions {stat.filemode(mode)}"
            )


def _is_group_of_one(gid, uid):
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(uid)
    except KeyError:  # A group or user without a name, as in some containers, may have other members.
        return False
    return group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
