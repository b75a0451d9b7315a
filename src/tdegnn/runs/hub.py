"""Folders of the Hugging Face hub: a run folder is one, with its model card and its weights as safetensors.

Local folders need nothing else. A name such as `owner/name` is downloaded by `huggingface_hub`, which the extra `hub`
installs.
"""

from __future__ import annotations

import re
from pathlib import Path

from tdegnn.errors import DownloadError, InputError
from tdegnn.runs.run_folder import FILES

HUB_NAME = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}", re.ASCII)


def find_folder(name: str | Path, revision: str | None = None) -> Path:
    """Return the local folder, or download the repository of this name and return its folder.

    Args:
        name: A folder, or the name of a repository of the hub, `owner/name`.
        revision: A branch, tag or commit of the repository. If None, its newest state.
    """
    path = Path(name)
    if path.exists() or isinstance(name, Path) or not HUB_NAME.fullmatch(name):
        if revision is not None:
            raise InputError(f"Expected the name of a repository with revision={revision!r}, got the folder {path}.")
        return path
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise InputError(
            f"Expected a folder, or huggingface_hub to download {name}, got neither. Run: pip install 'tdegnn[hub]'."
        ) from error
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(FILES)))
    except Exception as error:  # of many kinds: no network, no such repository, no permission
        raise DownloadError(f"Could not download {name} from the Hugging Face hub: {error}") from error
