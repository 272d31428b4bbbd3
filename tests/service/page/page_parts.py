"""What tests of the page ask the service and find on the page."""

from __future__ import annotations

import httpx


def ask(address, path, body=None):
    answer = httpx.get(address + path) if body is None else httpx.post(address + path, json=body)
    return answer.raise_for_status().json()


def combobox(page, label):
    return page.get_by_role("combobox", name=label)


def names(locator):
    return [text.strip() for text in locator.all_inner_texts()]
