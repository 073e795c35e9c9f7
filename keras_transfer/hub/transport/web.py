"""Opening the URLs of archives."""

import re
import urllib.error
import urllib.parse
import urllib.request

from keras_transfer.hub.transport.errors import HubError, shown

ARCHIVES = (".tar.gz", ".tgz", ".tar")
# A connection without data for this long has failed.
_TIMEOUT_SECONDS = 60


def check_url(url):
    """Raises a HubError if Python cannot open a URL and would print it, with its secrets, in the traceback."""
    if re.match(r"[^/]+//[^/?#]*@", url):
        raise HubError(
            "A URL must not contain a user name or a password. Download the archive and pass its path. "
            f"Received: {shown(url)!r}"
        )
    if re.search(r"[\x00-\x20\x7f]", url):
        raise HubError(f"A URL must not contain spaces or control characters. Received: {shown(url)!r}")


def open_url(url):
    """Opens the URL of an archive. Any other URL is a page, which returns its archive for tensorflow_hub's query."""
    parts = urllib.parse.urlsplit(url)
    query = urllib.parse.parse_qsl(parts.query, keep_blank_values=True)
    if not parts.path.endswith(ARCHIVES) and ("tf-hub-format", "compressed") not in query:
        query.append(("tf-hub-format", "compressed"))
        url = parts._replace(query=urllib.parse.urlencode(query), fragment="").geturl()
    return urllib.request.build_opener(_Redirects).open(url, timeout=_TIMEOUT_SECONDS)


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects to https, and from http to http."""

    def redirect_request(self, request, file, code, message, headers, url):
        old, new = (urllib.parse.urlsplit(each).scheme for each in (request.full_url, url))
        if new != "https" and (old, new) != ("http", "http"):
            raise urllib.error.HTTPError(url, code, f"Refused the redirect from {old} to {new}", headers, file)
        return super().redirect_request(request, file, code, message, headers, url)
