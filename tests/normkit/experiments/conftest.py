"""What the tests of the experiments share: how to read a table."""

import numpy as np
import pytest


@pytest.fixture
def values():
    """The numbers of a column, in the rows with these settings."""

    def values(rows, of, **settings):
        found = [row[of] for row in rows if all(row[name] == v for name, v in settings.items())]
        assert found, settings
        return np.array(found)

    return values
