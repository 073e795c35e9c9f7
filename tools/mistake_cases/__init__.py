"""The mistakes, by area."""

from mistake_cases import adaptation, arguments, checkpoints, command, data, labels, serving, tasks

AREAS = {
    "labels": labels.MISTAKES,
    "data": data.MISTAKES,
    "arguments": arguments.MISTAKES,
    "tasks": tasks.MISTAKES,
    "adaptation": adaptation.MISTAKES,
    "checkpoints": checkpoints.MISTAKES,
    "serving": serving.MISTAKES,
    "command": command.MISTAKES,
}
