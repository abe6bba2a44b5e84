#!/usr/bin/env bash
# Opens the pages in a real browser, at 420, 1000 and 1400 px. Nothing is fetched, the page is not
# wider than its window, the answer is first, no word of a cell is broken, and at 420 px the page is
# at most three times as high as at 1000. In pictures no text leaves its picture or touches another
# label or a line, none is smaller than 12 px, and marks have values for the pointer. At 420 px
# scripts are off; at the others tables are sorted, series hidden, pictures and data saved. Pages
# print. Bounded: about five minutes.
#
#   tests/pages.sh target/release/pantile
set -euo pipefail
cd "$(dirname "$0")/.."
. tools/setup.sh
need chromium chromium

pantile=$(realpath "$1")
dump=$(realpath vectors/foreign/ceph_osd_dump.json)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { printf 'pages.sh: %s\n' "$*" >&2; exit 1; }

say "the pages"
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
"${pantile}-lab" exascale --quick --clients 2000,80000 --html exascale.html >/dev/null 2>&1
"$pantile" advise --disks 6 --disk-size 16TB --html calculator.html >/dev/null 2>&1
"$pantile" advise --disks 12 --survive 2 --html advise.html >/dev/null 2>&1
"$pantile" prove shec:6,4,3 --html prove.html >/dev/null
"$pantile" prove rs:100+50 --html wide.html >/dev/null
! "$pantile" ceph report "$dump" --html ceph.html >/dev/null || fail "a stranded pool is not reported"

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

# Frames have the widths, since the window of a headless browser cannot have that of a phone. What
# the browser measures is left in the title.
cat >check.js <<'JS'
<script>
const wrong = new Set();
const all = (of, what) => [...of.querySelectorAll(what)];
const across = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left);
const down = (a, b) => Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);

function picture(svg, say) {
  const name = svg.getAttribute("aria-label"), frame = svg.getBoundingClientRect();
  const boxes = all(svg, "text").filter(text => text.textContent.trim()).map(text => {
    const words = text.textContent.trim();
    const size = parseFloat(getComputedStyle(text).fontSize) * frame.width / svg.viewBox.baseVal.width;
    if (size < 12) say(`${name}: "${words}" is ${size.toFixed(1)} px`);
    return [words, text.getBoundingClientRect()];
  });
  // Names keep away from the line of a front.
  for (const line of all(svg, "path[stroke-dasharray]"))
    for (let at = 0; at < line.getTotalLength(); at += 2) {
      const p = line.getPointAtLength(at).matrixTransform(line.getScreenCTM());
      for (const [text, box] of boxes)
        if (p.x > box.left && p.x < box.right && p.y > box.top + 3 && p.y < box.bottom - 3) say(`${name}: "${text}" lies on a line`);
    }
  boxes.forEach(([text, box], i) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
      say(`${name}: "${text}" leaves the picture`);
    for (const [other, that] of boxes.slice(i + 1))
      if (across(box, that) > 1 && down(box, that) > 5) say(`${name}: "${text}" touches "${other}"`);
  });
  // A stripe has its numbers in its cells.
  if (!name.startsWith("One stripe of") && !svg.querySelector("title")) say(`${name}: no values for the pointer`);
  return boxes.length;
}

function words(page, say) {
  let words = 0;
  const walker = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const part = node.parentElement;
    // Paths and the faults that name them can break anywhere, and so can commands.
    if (part.closest(".path, li, pre, script, svg")) continue;
    for (const match of node.data.matchAll(/\S+/g)) {
      const range = page.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const boxes = [...range.getClientRects()].filter(box => box.width);
      if (!boxes.length) continue;
      words++;
      // A word may break at its own hyphen, slash or dash.
      if (part.closest("td, th, h1") && !/[-\/\u2013]./.test(match[0]) && new Set(boxes.map(box => Math.round(box.top))).size > 1)
        say(`"${match[0]}" is broken`);
      if (parseFloat(getComputedStyle(part).fontSize) < 12) say(`"${match[0]}" is small`);
    }
  }
  return words;
}

// Clicks on headings, names of series and links, as a reader does.
async function used(page, say) {
  let series = 0, tables = 0;
  for (const name of all(page, "[data-legend]")) {
    const parts = all(name.closest("svg"), `[data-series="${name.dataset.legend}"]`);
    name.dispatchEvent(new MouseEvent("click"));
    if (!parts.length || parts.some(part => getComputedStyle(part).display !== "none")) say(`${name.textContent} is not hidden`);
    name.dispatchEvent(new MouseEvent("click"));
    if (parts.some(part => getComputedStyle(part).display === "none")) say(`${name.textContent} is not shown again`);
    series++;
  }
  for (const table of all(page, "table")) {
    const c = [...table.rows[0].cells].findIndex(cell => cell.matches("th.n[role=button]"));
    if (c < 0) continue;
    const column = () => [...table.rows].slice(1).map(row => parseFloat(row.cells[c].textContent)).filter(value => value === value);
    const before = column().sort((a, b) => a - b).join();
    table.rows[0].cells[c].click();
    // Units and marks before a number are left to the eye.
    if (column().length === table.rows.length - 1 && !/[KMGT]/.test(table.textContent) && column().join() !== before)
      say(`"${table.rows[0].cells[c].textContent}" is not sorted`);
    tables++;
  }
  for (const link of all(page, ".save a")) {
    link.addEventListener("click", event => event.preventDefault());
    link.click();
    const text = await (await fetch(link.href)).text().catch(() => "");
    const is = link.textContent === "SVG" ? /^<svg[^>]*xmlns/ : /^"[^\n]*"\n"/;
    if (!is.test(text)) say(`${link.download} is ${text.slice(0, 40)}`);
  }
  return [series, tables];
}

addEventListener("load", async () => {
  const heights = {};
  let labels = 0, count = 0, using = "";
  for (const frame of all(document, "iframe")) {
    const page = frame.contentDocument, root = page.documentElement, width = frame.clientWidth;
    const say = text => wrong.add(`at ${width} ${text}`);
    heights[width] = page.body.scrollHeight;
    for (const part of all(page, "details")) part.open = true;
    if (root.scrollWidth > root.clientWidth) say(`${root.scrollWidth} px wide, the window ${root.clientWidth}`);
    if (frame.contentWindow.performance.getEntriesByType("resource").length) say("something is fetched");
    const first = page.body.firstElementChild, answer = page.querySelector(".answer, h1.good, h1.bad, h1 + p");
    if (first.tagName !== "H1" || answer.getBoundingClientRect().top > 220) say("the answer is not first");
    labels += all(page, "figure svg").map(svg => picture(svg, say)).reduce((a, b) => a + b, 0);
    count += words(page, say);
    const is_off = frame.hasAttribute("sandbox");
    if (is_off === Boolean(page.querySelector(".save, [role=button]")) && page.querySelector("figure")) say("scripts");
    if (!is_off && page.querySelector("figure")) using = await used(page, say);
  }
  if (heights[420] > 3 * heights[1000]) wrong.add(`${heights[420]} px high at 420, ${heights[1000]} at 1000`);
  if (count < 60) wrong.add(`only ${count} words`);
  const said = [...wrong];
  document.title = said.length ? `WRONG ${said.length}: ${said.slice(0, 12).join("; ")}`
    : `RIGHT: ${labels} labels, ${count} words, ${using} series and tables, height at 420 / 1000 px ${(heights[420] / heights[1000]).toFixed(2)}`;
});
</script>
JS

browser() { timeout 120 chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --user-data-dir="$work/profile" "$@" 2>/dev/null; }
for page in papers replay healthy driven durability delayed exascale calculator advise prove wide ceph status; do
    ! sed 's|http://www.w3.org/||g' "$page.html" | grep -q 'https\?://' || fail "$page names an address"
    case $page in durability | calculator | advise | ceph)
        [ "$(grep -oi 'nines: of no loss' "$page.html" | wc -l)" = 1 ] || fail "$page does not explain nines once" ;;
    esac
    { printf '<!doctype html><title>-</title>'
        printf '<iframe src="%s.html" sandbox="allow-same-origin" style="width:420px;height:900px;border:0"></iframe>' "$page"
        for width in 1000 1400; do
            printf '<iframe src="%s.html" style="width:%dpx;height:900px;border:0"></iframe>' "$page" "$width"
        done
        cat check.js; } >framed.html
    title=$(browser --allow-file-access-from-files --window-size=1600,3200 --virtual-time-budget=60000 \
        --dump-dom "file://$work/framed.html" | sed -n 's|.*<title>\([^<]*\)</title>.*|\1|p' | head -n 1) || title="no answer within two minutes"
    printf '%s: %s\n' "$page" "$title"
    case $title in RIGHT*) ;; *) fail "$page" ;; esac
    browser --no-pdf-header-footer --print-to-pdf="$work/$page.pdf" "file://$work/$page.html"
    [ "$(stat -c %s "$page.pdf")" -gt 20000 ] || fail "$page does not print"
done
