"""A browser, and a site that holds each picture in each language."""

import pytest

from tests.browser import chromium, serving
from tests.pictures import errors, shown, write_all


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    write_all(folder)
    with serving(folder) as address:
        yield folder, address


@pytest.fixture(scope="module")
def browser():
    with chromium() as page:
        page.ask("Runtime.enable"), page.ask("Log.enable")
        yield page


@pytest.fixture
def page(browser, site, request):
    """The picture of the module, in English; whatever is done to it, the console stays empty."""
    yield shown(browser, site[1], request.path.stem.removeprefix("test_"))
    assert not errors(browser)
