package main

import (
	"fmt"
	"html"
	"strings"
)

// Sizes of the chart in pixels.
const (
	chartWidth = 760
	rowHeight  = 46
	labelTop   = 16
	barTop     = 24
	barHeight  = 10
	targetAt   = 380 // the target of each figure
	widest     = 2   // shares above are cut off
)

// style gives the chart the colours of the page, or its own if it is shown alone.
const style = `<style>
.plot { --p-text: var(--plot-text, #17211f); --p-soft: var(--plot-soft, #52605f); --p-bar: var(--plot-bar, #0b6660);
  --p-missed: var(--plot-missed, #b45309); --p-line: var(--plot-line, #dde3e4); font: 13px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) {
  .plot { --p-text: var(--plot-text, #e3eae9); --p-soft: var(--plot-soft, #9fb0ae); --p-bar: var(--plot-bar, #5fd4c4);
    --p-missed: var(--plot-missed, #f0b27a); --p-line: var(--plot-line, #2a3635); }
}
.plot text { fill: var(--p-text); } .plot .soft { fill: var(--p-soft); } .plot .bar { fill: var(--p-bar); }
.plot .missed { fill: var(--p-missed); } .plot .track { fill: var(--p-line); } .plot .goal { stroke: var(--p-text); stroke-width: 2; }
</style>
`

// draw returns the chart: a bar for each figure, and a line at its target. The text of a row has the
// numbers, the better side of the line, and whether the target was missed.
func draw(r *run) string {
	var rows strings.Builder
	y := 0
	for _, f := range r.figures {
		share, atMost, ok := f.share()
		if !ok {
			continue
		}
		side := "more is better"
		if atMost {
			side = "less is better"
		}
		class := "bar"
		if f.mark != "ok" {
			class, side = "bar missed", side+": missed"
		}
		width := targetAt * min(share, widest)
		value := oneValue.FindString(f.measured)
		fmt.Fprintf(&rows, `<text x="0" y="%d">%s</text><text class="soft" x="%d" y="%d" text-anchor="end">%s, target %s, %s</text>`+"\n",
			y+labelTop, html.EscapeString(f.name), chartWidth, y+labelTop, html.EscapeString(value),
			html.EscapeString(oneTarget.FindString(f.target)), side)
		fmt.Fprintf(&rows, `<rect class="track" x="0" y="%d" width="%d" height="%d" rx="3"/>`, y+barTop, chartWidth, barHeight)
		fmt.Fprintf(&rows, `<rect class="%s" x="0" y="%d" width="%.1f" height="%d" rx="3"/>`, class, y+barTop, width, barHeight)
		fmt.Fprintf(&rows, `<line class="goal" x1="%d" x2="%d" y1="%d" y2="%d"/>`+"\n", targetAt, targetAt, y+barTop-3, y+barTop+barHeight+3)
		y += rowHeight
	}
	return fmt.Sprintf(`<svg class="plot" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" `+
		`aria-label="Measured figures as shares of their targets; the list below has the numbers">
%s%s</svg>
`, chartWidth, max(y, rowHeight), style, rows.String())
}
