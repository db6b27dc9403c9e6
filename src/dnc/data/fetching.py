"""Archives of published data sets, fetched by torchvision and checked."""

from pathlib import Path

from torchvision.datasets.utils import download_and_extract_archive

from dnc.errors import InvalidData


def fetch_archive(address: str, root: Path, *, md5: str) -> None:
    """Fetches an archive into a folder, unless it is there already, and unpacks it there."""
    try:
        download_and_extract_archive(address, str(root), md5=md5)
    except (OSError, RuntimeError, EOFError) as error:  # no network, a wrong md5, a cut archive
        raise InvalidData(
            f"{address} could not be fetched and unpacked ({error}). Fetch it by other means (md5 "
            f"{md5}), put it into {root} and unpack it there."
        ) from error
