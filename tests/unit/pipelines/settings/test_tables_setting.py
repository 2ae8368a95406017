from __future__ import annotations

import pytest

from pipelines.errors import SettingsError
from pipelines.settings.base import Settings, settings_from, shaped_as
from pipelines.stages import Frozen, generation_key, stage_keys

FROZEN = Frozen(static="s")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/team/handbook/", "s3://bucket/team/handbook"),
        ("gs://my.bucket/a", "gs://my.bucket/a"),
        ("az://container/a b", "az://container/a b"),
        ("file:///srv/share", "file:///srv/share"),
    ],
)
def test_an_address_is_kept_without_its_last_slash(given: str, kept: str) -> None:
    assert settings_from({"tables": given}).tables == kept


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("s4://bucket", "write s3://BUCKET/PREFIX"),
        ("/srv/share", "write s3://BUCKET/PREFIX"),
        ("s3:bucket", "write s3://BUCKET/PREFIX"),
        ("s3://", "no bucket of such a name"),
        ("s3:///prefix", "no bucket of such a name"),
        ("s3://a/b", "no bucket of such a name"),
        ("s3://key:s3cret@bucket/x", "credentials and endpoints come from the environment"),
        ("s3://bucket/x?secret_key=s3cret", "credentials and endpoints come from the environment"),
        ("s3://bucket/x#s3cret", "credentials and endpoints come from the environment"),
        ("s3://bucket/../other", "none is empty or dots"),
        ("s3://bucket/a//b", "none is empty or dots"),
        ("s3://bucket/a%2Fb", "none is empty or dots"),
        ("s3://bucket/a\nb", "none is empty or dots"),
        ("file://host/x", "absolute"),
        ("file:///", "absolute"),
        ("s3://[::1", "not an address"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_without_its_secrets(given: str, told: str) -> None:
    with pytest.raises(SettingsError, match=r"setting 'tables': ") as caught:
        settings_from({"tables": given}, "pincite.yaml")
    assert told in str(caught.value) and "s3cret" not in str(caught.value)


def test_where_tables_are_moves_no_key() -> None:
    here, there = Settings(), settings_from({"tables": "s3://bucket/x", "tables_cache_mb": 100})
    assert stage_keys(here, FROZEN) == stage_keys(there, FROZEN)
    assert generation_key(here, FROZEN) == generation_key(there, FROZEN)
    assert shaped_as(there, here.model_dump(mode="json")).tables == "s3://bucket/x"
