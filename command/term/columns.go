package term

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// columns aligns the cells of rows, which are separated by "|", by their width on a terminal. glue is
// printed between cells, and empty instead of an empty one. The last cell of a row is not padded.
func columns(rows []string, glue, empty string) string {
	cells := make([][]string, len(rows))
	var widths []int
	for i, row := range rows {
		cells[i] = strings.Split(row, "|")
		for j, cell := range cells[i] {
			if cell = strings.TrimSpace(cell); cell == "" {
				cell = empty
			}
			cells[i][j] = cell
			if j == len(widths) {
				widths = append(widths, 0)
			}
			widths[j] = max(widths[j], displayWidth(cell))
		}
	}
	var b strings.Builder
	for i, row := range cells {
		if i > 0 {
			b.WriteByte('\n')
		}
		for j, cell := range row {
			b.WriteString(cell)
			if j < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[j]-displayWidth(cell)) + glue)
			}
		}
	}
	return b.String()
}

// displayWidth returns the number of terminal columns of a text without escape sequences: two for
// wide characters, such as those of Chinese, none for characters that combine with the previous one.
func displayWidth(text string) int {
	n := 0
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf, unicode.Cc):
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}
