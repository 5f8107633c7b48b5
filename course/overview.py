"""The course's map for the index page: a card per lesson, how far it has come, the next step."""

import sys
from dataclasses import dataclass
from html import escape

from course import progress
from course.lesson_progress import Standing, next_standing, standings
from course.style import themed

_CSS = (
    themed("sng-map")
    + """
.sng-map{max-width:46rem;margin:.5rem 0;color:var(--sng-ink);font:16px/1.5 system-ui,sans-serif}
.sng-map,.sng-map *{box-sizing:border-box}
.sng-map p,.sng-map h2,.sng-map ul{margin:0;padding:0;border:0}
.sng-map .sng-next{display:flex;flex-wrap:wrap;align-items:center;justify-content:space-between;
 gap:.6rem 1.2rem;padding:1rem 1.1rem;border-radius:10px;background:var(--sng-card);
 border:1px solid var(--sng-line);border-left:4px solid var(--sng-accent)}
.sng-map .sng-next p{font-size:16px;color:var(--sng-ink)}
.sng-map .sng-next .sng-small{font-size:14px;color:var(--sng-soft)}
.sng-map a.sng-go{flex:none;padding:.5rem 1.1rem;border-radius:7px;font-weight:600;
 background:var(--sng-accent);color:var(--sng-card);text-decoration:none}
.sng-map a.sng-go:hover{text-decoration:underline}
.sng-map a:focus-visible{outline:3px solid var(--sng-accent);outline-offset:2px;border-radius:4px}
.sng-map ul{list-style:none;display:grid;gap:.8rem;margin-top:.9rem}
.sng-map li{display:grid;grid-template-columns:2.6rem 1fr;gap:0 .9rem;margin:0;padding:1rem 1.1rem;
 border:1px solid var(--sng-line);border-radius:10px;background:var(--sng-card)}
.sng-map li::marker{content:""}
.sng-map .sng-number{width:2.6rem;height:2.6rem;border-radius:50%;display:grid;place-items:center;
 font-weight:650;font-variant-numeric:tabular-nums;border:2px solid var(--sng-line);
 color:var(--sng-soft)}
.sng-map .sng-done .sng-number{border-color:var(--sng-good);color:var(--sng-good)}
.sng-map .sng-here .sng-number{border-color:var(--sng-accent);color:var(--sng-accent)}
.sng-map .sng-number svg{width:20px;height:20px;fill:none;stroke:currentColor;stroke-width:2.2;
 stroke-linecap:round;stroke-linejoin:round}
.sng-map h2{font-size:18px;line-height:1.35;font-weight:650;letter-spacing:0}
.sng-map h2 a{color:var(--sng-ink);text-decoration:none}
.sng-map h2 a:hover{text-decoration:underline}
.sng-map li p{margin-top:.2rem;font-size:15px;color:var(--sng-ink)}
.sng-map li .sng-small{margin-top:.45rem;font-size:14px;color:var(--sng-soft)}
.sng-map .sng-bar{height:6px;margin-top:.6rem;border-radius:3px;background:var(--sng-line);
 overflow:hidden}
.sng-map .sng-bar span{display:block;height:100%;background:var(--sng-good)}
.sng-map .sng-aside{margin-top:.9rem;font-size:14px;color:var(--sng-soft)}
@media (max-width:30rem){.sng-map li{padding:.9rem;gap:0 .7rem;grid-template-columns:2.1rem 1fr}
 .sng-map .sng-number{width:2.1rem;height:2.1rem}
 .sng-map a.sng-go{width:100%;text-align:center}}
"""
)
_TICK = '<svg viewBox="0 0 20 20" aria-hidden="true"><path d="M4.5 10.5l3.8 3.8 7.2-8.4"/></svg>'


@dataclass(frozen=True, slots=True)
class Overview:
    """The map at one moment; draws itself as HTML that needs no script."""

    standings: tuple[Standing, ...]
    notes: tuple[str, ...] = ()

    def _repr_html_(self) -> str:
        here = next_standing(self.standings)
        cards = "".join(_card(standing, standing is here) for standing in self.standings)
        notes = "".join(f'<p class="sng-aside">{escape(note)}</p>' for note in self.notes)
        return (
            f'<style>{_CSS}</style><div class="sng-map">{_next(here, self.standings)}'
            f"<ul>{cards}</ul>{notes}</div>"
        )


def overview() -> Overview:
    """The map of all lessons with the learner's progress as it is now."""
    return Overview(standings(), tuple(progress.set_aside()))


def _next(here: Standing | None, everything: tuple[Standing, ...]) -> str:
    """The box on top: how far all of it has come, and one link to go on."""
    passed = sum(len(standing.passed) for standing in everything)
    total = sum(len(standing.exercises) for standing in everything)
    left = sum(standing.minutes_left for standing in everything)
    if here is None or here.next_exercise is None:
        return (
            '<div class="sng-next"><div><p><strong>Every exercise is passed.</strong></p>'
            f'<p class="sng-small">{total} of {total} exercises</p></div></div>'
        )
    name = here.next_exercise.id.rpartition(".")[2]
    if passed or here.started:
        word = "Go on"
        what = f"<strong>Next:</strong> {escape(here.next_exercise.title)} (<code>{name}</code>)"
    else:
        word, what = "Start", f"<strong>Start here:</strong> {escape(here.lesson.title)}"
    return (
        f'<div class="sng-next"><div><p>{what}</p>'
        f'<p class="sng-small">{passed} of {total} exercises passed, about {left} minutes left</p>'
        f'</div><a class="sng-go" href="{_link(here)}"'
        f' aria-label="{word}: lesson {here.lesson.number}">{word}</a></div>'
    )


def _card(standing: Standing, is_here: bool) -> str:
    lesson = standing.lesson
    done, total = len(standing.passed), len(standing.exercises)
    look = "sng-done" if standing.is_done else "sng-here" if is_here else ""
    facts = [f"Lesson {lesson.number}", f"{lesson.minutes} minutes"]
    if lesson.builds_on:
        numbers = " and ".join(lesson.builds_on)
        facts.append(f"builds on lesson {numbers}")
    facts.append("done" if standing.is_done else f"{done} of {total} exercises passed")
    return (
        f'<li class="{look}"><div class="sng-number" aria-hidden="true">'
        f"{_TICK if standing.is_done else lesson.number}</div><div>"
        f'<h2><a href="{_link(standing)}">{escape(lesson.title)}</a></h2>'
        f"<p>{escape(lesson.builds)}</p>"
        f'<p class="sng-small">{" · ".join(facts)}</p>'
        f'<div class="sng-bar" aria-hidden="true">'
        f'<span style="width:{100 * done // max(1, total)}%"></span></div></div></li>'
    )


def _link(standing: Standing) -> str:
    if "course.jupyter.reactive" in sys.modules:
        return f"{standing.lesson.stem}.ipynb"
    return f"/?file={standing.lesson.stem}.py"
