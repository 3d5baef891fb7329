package top

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/text/width"

	"github.com/open-nomad/open-nomad/command/term"
)

// noLimit is the width of an output that is not a terminal.
const noLimit = 1 << 16

// view selects the lists.
type view int

const (
	both view = iota
	onlyNodes
	onlyAllocs
	views // their number
)

// column is one column of a list. When a line is too long, the column with the greatest rank
// is left out first. A column of rank 0 stays and is shortened.
type column struct {
	title string
	right bool
	rank  int
	cell  func(i int) string
}

// header returns the lines above the lists.
func (s *Snapshot) header() []string {
	line := fmt.Sprintf("%s  %d nodes, %d allocations", s.Time.Local().Format(time.TimeOnly), len(s.Nodes)+s.NodesNotMeasured,
		len(s.Allocations)+s.AllocationsNotMeasured)
	out := []string{line}
	if s.NodesNotMeasured+s.AllocationsNotMeasured > 0 {
		out = append(out, fmt.Sprintf("not measured: %d nodes, %d allocations (see -node, -job, -max)", s.NodesNotMeasured,
			s.AllocationsNotMeasured))
	}
	if s.AllocationsNotListed {
		out = append(out, fmt.Sprintf("only %d running allocations were read: select a namespace", maxListed))
	}
	return append(out, "")
}

// table returns the lines of the lists, none longer than limit.
func (s *Snapshot) table(show view, limit int) []string {
	var out []string
	if show != onlyAllocs {
		out = append(out, layout(len(s.Nodes), limit, s.nodeColumns())...)
	}
	if show == both {
		out = append(out, "")
	}
	if show != onlyNodes {
		out = append(out, layout(len(s.Allocations), limit, s.allocColumns())...)
	}
	return out
}

func (s *Snapshot) nodeColumns() []column {
	at := func(i int) *Node { return s.Nodes[i] }
	return append([]column{
		{"Node", false, 0, func(i int) string { return at(i).Name }},
		{"ID", false, 6, func(i int) string { return term.Short.ID(at(i).ID) }},
		{"Status", false, 4, func(i int) string { return at(i).Status }},
		{"Allocs", true, 5, func(i int) string { return fmt.Sprint(at(i).Allocations) }},
	}, usageColumns(func(i int) (*Usage, bool) { return &at(i).Usage, at(i).Measured })...)
}

func (s *Snapshot) allocColumns() []column {
	at := func(i int) *Alloc { return s.Allocations[i] }
	return append([]column{
		{"Job", false, 0, func(i int) string { return at(i).JobID }},
		{"Group", false, 5, func(i int) string { return at(i).TaskGroup }},
		{"Alloc", false, 1, func(i int) string { return term.Short.ID(at(i).ID) }},
		{"Namespace", false, 7, func(i int) string { return at(i).Namespace }},
		{"Node", false, 6, func(i int) string { return at(i).NodeName }},
	}, usageColumns(func(i int) (*Usage, bool) { return &at(i).Usage, at(i).Measured })...)
}

func usageColumns(of func(int) (*Usage, bool)) []column {
	cell := func(format func(*Usage) string) func(int) string {
		return func(i int) string {
			u, measured := of(i)
			if !measured {
				return "-"
			}
			return format(u)
		}
	}
	return []column{
		{"CPU MHz", true, 3, cell(func(u *Usage) string { return fmt.Sprintf("%.0f/%.0f", u.CPU, u.CPUTotal) })},
		{"CPU", true, 0, cell(func(u *Usage) string { return percent(u.CPU, u.CPUTotal) })},
		{"Memory", true, 3, cell(func(u *Usage) string { return term.Bytes(u.Memory) + "/" + term.Bytes(u.MemoryTotal) })},
		{"Mem", true, 0, cell(func(u *Usage) string { return percent(float64(u.Memory), float64(u.MemoryTotal)) })},
	}
}

func percent(of, total float64) string {
	if total <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*of/total)
}

// gap separates columns.
const gap = "  "

// layout returns a list as lines of at most limit columns. The first line has the titles.
func layout(n, limit int, columns []column) []string {
	cells := make([][]string, len(columns))
	widths := make([]int, len(columns))
	for i, c := range columns {
		cells[i] = append(cells[i], c.title)
		for row := range n {
			cells[i] = append(cells[i], term.Cell(c.cell(row)))
		}
		for _, text := range cells[i] {
			widths[i] = max(widths[i], displayWidth(text))
		}
	}
	keep := fit(columns, widths, limit)
	out := make([]string, n+1)
	for row := range out {
		var parts []string
		for _, i := range keep {
			parts = append(parts, pad(shorten(cells[i][row], widths[i]), widths[i], columns[i].right))
		}
		out[row] = shorten(strings.TrimRight(strings.Join(parts, gap), " "), limit)
	}
	return out
}

// minFirst is the least width of the first column.
const minFirst = 8

// fit returns the columns that fit into limit. It shortens the first one if the rest does not.
func fit(columns []column, widths []int, limit int) []int {
	var keep []int
	total := -len(gap)
	for i, w := range widths {
		keep = append(keep, i)
		total += w + len(gap)
	}
	for total-widths[0]+min(widths[0], minFirst) > limit {
		worst := -1
		for at, i := range keep {
			if columns[i].rank > 0 && (worst < 0 || columns[i].rank >= columns[keep[worst]].rank) {
				worst = at
			}
		}
		if worst < 0 {
			break
		}
		total -= widths[keep[worst]] + len(gap)
		keep = append(keep[:worst], keep[worst+1:]...)
	}
	if over := total - limit; over > 0 {
		widths[0] = max(widths[0]-over, 1)
	}
	return keep
}

// pad fills a text with spaces.
func pad(text string, to int, right bool) string {
	space := strings.Repeat(" ", max(to-displayWidth(text), 0))
	if right {
		return space + text
	}
	return text + space
}

// shorten shortens a text to a width.
func shorten(text string, to int) string {
	if displayWidth(text) <= to {
		return text
	}
	var b strings.Builder
	n := 0
	for _, r := range text {
		w := runeWidth(r)
		if n+w > to-1 {
			break
		}
		b.WriteRune(r)
		n += w
	}
	if to > 0 {
		b.WriteRune('…')
	}
	return b.String()
}

// displayWidth returns the number of terminal columns of a printable text.
func displayWidth(text string) int {
	n := 0
	for _, r := range text {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	if k := width.LookupRune(r).Kind(); k == width.EastAsianWide || k == width.EastAsianFullwidth {
		return 2
	}
	return 1
}
