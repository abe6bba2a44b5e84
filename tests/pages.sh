#!/usr/bin/env bash
# Opens the lab's pages in a real browser: nothing is fetched, no text leaves its picture or touches
# another label or a line, none is smaller than 12 px, the page is not wider than its window, and it
# prints. Then the page of 'status --html' at 420 and 1400 px: no word is broken, the answer is
# first. Bounded: about four minutes.
#
#   tests/pages.sh target/release/pantile
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup.sh
need chromium chromium

pantile=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { printf 'pages.sh: %s\n' "$*" >&2; exit 1; }

say "six pages"
timeout 120 "${pantile}-lab" papers --no-throughput --html papers.html >/dev/null 2>&1 || fail "no page of the papers"
"${pantile}-lab" generate zipf --requests 50000 --element 8K --space 1G --out trace.csv
codes=raid5:6,raid6:6,raid6:60,dcode:7,shec:4,3,2,mirror:3,raidp:5
"$pantile" replay trace.csv --codes "$codes" --lost 1 --windows 1,16,256 --html replay.html >/dev/null
"$pantile" replay trace.csv --codes raid6:6,xcode:11,raidp:16 --html healthy.html >/dev/null
"$pantile" replay trace.csv --codes raid6:6,dcode:7,mirror:3 --driven --windows 1,64,1024 \
    --lost 1 --lost-at 10000 --rebuild-at 20000 --rebuild-pace 500 --html driven.html >/dev/null 2>&1
"$pantile" durability raid5:7 raid6:6 rs:10+4 mirror:3 shec:6,4,3 lrc:12,2,2 raidp:8 dcode:7 xorbas:10,6,5 rs:6+3 \
    --cycles 5000 --html durability.html >/dev/null 2>&1
"${pantile}-lab" delayed --quick --html delayed.html >/dev/null 2>&1

# What the browser measures is left in the title of the page.
cat >check.js <<'JS'
<script>
addEventListener("load", () => {
  const wrong = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) wrong.push(`page: ${root.scrollWidth} px wide, the window ${root.clientWidth}`);
  if (performance.getEntriesByType("resource").length) wrong.push("something is fetched");
  let texts = 0;
  for (const svg of document.querySelectorAll("figure svg")) {
    const name = svg.getAttribute("aria-label"), frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].filter(text => text.textContent.trim()).map(text => {
      const words = text.textContent.trim();
      const size = parseFloat(getComputedStyle(text).fontSize) * frame.width / svg.viewBox.baseVal.width;
      if (size < 12) wrong.push(`${name}: "${words}" is ${size.toFixed(1)} px`);
      return [words, text.getBoundingClientRect()];
    });
    texts += boxes.length;
    // Names keep away from the line of a front.
    for (const line of svg.querySelectorAll("path[stroke-dasharray]")) {
      const crossed = new Set();
      for (let at = 0; at < line.getTotalLength(); at += 2) {
        const p = line.getPointAtLength(at).matrixTransform(line.getScreenCTM());
        for (const [text, box] of boxes)
          if (p.x > box.left && p.x < box.right && p.y > box.top + 3 && p.y < box.bottom - 3) crossed.add(text);
      }
      for (const text of crossed) wrong.push(`${name}: "${text}" lies on a line`);
    }
    boxes.forEach(([text, box], i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        wrong.push(`${name}: "${text}" leaves the picture`);
      for (const [other, that] of boxes.slice(i + 1)) {
        const across = Math.min(box.right, that.right) - Math.max(box.left, that.left);
        const down = Math.min(box.bottom, that.bottom) - Math.max(box.top, that.top);
        if (across > 1 && down > 5) wrong.push(`${name}: "${text}" touches "${other}"`);
      }
    });
  }
  if (texts < 20) wrong.push(`only ${texts} labels`);
  document.title = wrong.length ? `WRONG ${wrong.length}: ${wrong.slice(0, 12).join("; ")}` : `RIGHT: ${texts} labels`;
});
</script>
JS

browser() { timeout 90 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$work/profile" "$@" 2>/dev/null; }
for page in papers replay healthy driven durability delayed; do
    say "$page"
    ! sed 's|http://www.w3.org/||g' "$page.html" | grep -q 'https\?://' || fail "$page names an address"
    cat "$page.html" check.js >"$page-checked.html"
    for width in 1000 1400; do
        title=$(browser --window-size=$width,2000 --virtual-time-budget=20000 --dump-dom "file://$work/$page-checked.html" |
            sed -n 's|.*<title>\(.*\)</title>.*|\1|p' | head -n 1)
        printf '%s px: %s\n' "$width" "$title"
        case $title in RIGHT*) ;; *) fail "$page at $width px" ;; esac
    done
    browser --no-pdf-header-footer --print-to-pdf="$work/$page.pdf" "file://$work/$page.html"
    [ "$(stat -c %s "$page.pdf")" -gt 20000 ] || fail "$page does not print"
done

say "the status page, on a phone and on a screen"
"$pantile" create tank --size 16M --code raid6:4 >/dev/null
"$pantile" create "a volume with a long name" --size 16M --code mirror:2 >/dev/null
"$pantile" fail tank 1 >/dev/null
mkdir films && echo x >films/file
cat >pantile.toml <<EOF
state = '$work/state'
[set.films]
paths = ['$work/films']
out = ['$work/out']
code = 'rs:2+1'
[volume.a]
folder = '$work/tank'
[volume.b]
folder = '$work/a volume with a long name'
EOF
"$pantile" seal --all=pantile.toml >/dev/null
! "$pantile" status --all=pantile.toml --html status.html || fail "a lost device is not reported"

# The frame has the width of the phone, which the window of a headless browser cannot have.
cat >frame.js <<'JS'
<script>
addEventListener("load", () => {
  const wrong = [], page = document.querySelector("iframe").contentDocument, root = page.documentElement;
  if (root.scrollWidth > root.clientWidth) wrong.push(`${root.scrollWidth} px wide, the window ${root.clientWidth}`);
  const first = page.body.firstElementChild;
  if (first.tagName !== "H1" || first.getBoundingClientRect().top > 100) wrong.push("the answer is not first");
  let words = 0;
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    // Paths and the faults that name them can break anywhere.
    if (node.parentElement.closest(".path, li")) continue;
    for (const match of node.data.matchAll(/\S+/g)) {
      const range = page.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const boxes = [...range.getClientRects()];
      if (!boxes.length) continue;
      if (new Set(boxes.map(box => Math.round(box.top))).size > 1) wrong.push(`"${match[0]}" is broken`);
      if (parseFloat(getComputedStyle(node.parentElement).fontSize) < 12) wrong.push(`"${match[0]}" is small`);
      words++;
    }
  }
  if (words < 60) wrong.push(`only ${words} words`);
  document.title = wrong.length ? `WRONG ${wrong.length}: ${wrong.slice(0, 12).join("; ")}` : `RIGHT: ${words} words`;
});
</script>
JS
for width in 420 1400; do
    { printf '<!doctype html><title>-</title><iframe src="status.html" style="width:%dpx;height:3000px;border:0"></iframe>' $width
        cat frame.js; } >framed.html
    title=$(browser --allow-file-access-from-files --window-size=1600,3200 --virtual-time-budget=20000 \
        --dump-dom "file://$work/framed.html" | sed -n 's|.*<title>\([^<]*\)</title>.*|\1|p' | head -n 1)
    printf '%s px: %s\n' "$width" "$title"
    case $title in RIGHT*) ;; *) fail "the status page at $width px" ;; esac
done
