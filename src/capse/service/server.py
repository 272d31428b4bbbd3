"""The listening socket, and who answers on it: this process, or several workers."""

from __future__ import annotations

import socket
from collections.abc import Callable

from capse.errors import SettingsError
from capse.service.loaded_models import Models
from capse.service.observe import configure_logs
from capse.service.settings import ServiceSettings
from capse.service.supervisor import Supervisor
from capse.service.worker import BACKLOG, answer


def serve(settings: ServiceSettings, started: Callable[[str], None]) -> None:
    """Serve until a signal says stop; ``started`` is told the address once requests are answered.

    SIGTERM and SIGINT let requests in flight finish; SIGHUP has every worker load its runs again.
    """
    listening = _listen(settings.host, settings.port)
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"http://{host}:{listening.getsockname()[1]}"
    configure_logs(settings.log_level)
    with listening:
        if settings.workers == 1:
            answer(settings, listening, lambda: started(address))
        else:
            Models.load(
                settings.runs, settings.against, settings.shard
            )  # or every worker would fail, and be replaced by one that fails
            Supervisor(settings, listening).run(lambda: started(address))


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        remedy = "choose another with --port" if port else "choose another --host"
        raise SettingsError(f"cannot listen on {host} port {port} ({error.strerror or error})", remedy) from error
    return listening
