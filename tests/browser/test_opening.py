"""The course as a newcomer meets it: the index, a lesson behind its link, and what is saved."""

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def test_the_first_page_is_the_index_without_code(page: Page, course_server, console_errors):
    page.goto(course_server.address)
    expect(page.get_by_role("heading", level=1).first).to_be_visible(timeout=60_000)
    assert "access_token" not in page.url
    expect(page.locator(".cm-editor:visible")).to_have_count(0)
    assert console_errors == []


def test_the_links_of_the_index_open_lessons(page: Page, course_server):
    page.goto(course_server.address)
    link = page.locator('a[href*="file=l01_"]').first
    link.click(timeout=60_000)
    page = page.context.pages[-1]
    page.wait_for_url("**/?file=l01_*")
    expect(page.get_by_role("heading", level=1).first).to_be_visible(timeout=60_000)


def test_a_notebook_is_run_by_itself_when_it_is_opened(page: Page, course_server):
    page.goto(course_server.url("l01_chunked_prefill.py"))
    expect(page.get_by_role("heading", level=1).first).to_be_visible(timeout=60_000)
    expect(page.locator('[data-status="running"], [data-status="queued"]')).to_have_count(
        0, timeout=60_000
    )
    expect(page.get_by_text("has not been run")).to_have_count(0)
