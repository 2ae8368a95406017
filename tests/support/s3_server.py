"""A server that speaks S3, on loopback and with what it holds in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any

import boto3
import requests
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tests.support.front import Front as BareFront
from tests.support.front import front_before
from tests.support.waiting import HANG_SECONDS, PAUSE_SECONDS

BUCKET = "papers"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "reader", "AWS_SECRET_ACCESS_KEY": "any", "AWS_DEFAULT_REGION": "us-east-1"}


@dataclass(frozen=True)
class S3Server:
    url: str
    client: Any

    def address(self, prefix: str = "", bucket: str = BUCKET) -> str:
        """What `path` of a source says."""
        return f"s3://{bucket}/{prefix}?endpoint={self.url}"

    def put(self, key: str, body: str | bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=key, Body=body.encode() if isinstance(body, str) else body)

    def delete(self, *keys: str) -> None:
        for key in keys:
            self.client.delete_object(Bucket=BUCKET, Key=key)

    def keys(self) -> list[str]:
        return list(self.tags())

    def tags(self) -> dict[str, str]:
        """The ETag of each object, by key."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
        return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", ())}


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """With an empty bucket `papers`."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=MotoRequestHandler)
    thread = Thread(target=server.serve_forever, args=(PAUSE_SECONDS,), daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    client = boto3.client(
        "s3",
        endpoint_url=url,
        aws_access_key_id="writer",
        aws_secret_access_key="any",
        region_name="us-east-1",
    )
    requests.post(f"{url}/moto-api/reset", timeout=HANG_SECONDS)  # what it holds is the process's, not the server's
    client.create_bucket(Bucket=BUCKET)
    try:
        yield S3Server(url, client)
    finally:
        server.shutdown()
        thread.join()


@dataclass
class Front(BareFront):
    """Before a bucket."""

    def address(self, prefix: str = "") -> str:
        return f"s3://{BUCKET}/{prefix}?endpoint={self.url}"


def error_body(code: str) -> str:
    return f'<?xml version="1.0"?><Error><Code>{code}</Code><Message>as the test says</Message></Error>'


@contextmanager
def front_of(server: S3Server) -> Iterator[Front]:
    with front_before(Front("", server.url)) as front:
        yield front
