"""`fairway`: the commands, each imported when it is called."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import cast

import click

from fairway.core.errors import FairwayError, SettingsError

NOUNS = {"pipeline": "fairway.cli.pipeline"}  # imported when asked for: they may need an extra


class Commands(click.Group):
    """Finds a noun's module when its command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted([*super().list_commands(ctx), *NOUNS])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in NOUNS:
            return cast(click.Command, getattr(import_module(NOUNS[cmd_name]), cmd_name))
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except SettingsError as error:
            raise click.UsageError(error.detail) from None
        except FairwayError as error:
            raise click.ClickException(error.detail) from None


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fairway")
def main() -> None:
    """One message queue that a Python team starts with one command and never outgrows."""


@main.command()
@click.option(
    "--store", envvar="FAIRWAY_STORE", help="URL of the store [default: a file in --data]"
)
@click.option(
    "--data",
    envvar="FAIRWAY_DATA",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("fairway-data"),
    show_default=True,
    help="folder of the embedded store",
)
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option(
    "--port", envvar="QUONGO_PORT", type=click.IntRange(0, 65535), default=7070, show_default=True
)
def serve(store: str | None, data: Path, host: str, port: int) -> None:
    """Start the server; Ctrl-C ends it."""
    from fairway.server import serve as server

    if store is None:
        data.mkdir(parents=True, exist_ok=True)
        store = f"sqlite:///{data / 'fairway.db'}"
    listener = server.listen(host, port)
    server.serve(store, listener, lambda url: _announce(url, store))


def _announce(url: str, store: str) -> None:
    click.echo(f"Fairway answers at {url} (store {store})")
    click.echo(f"  try: curl -d 'hello' {url}/v1/queues/greetings/messages")
