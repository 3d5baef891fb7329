package term

import "strings"

// Wrap breaks text into lines of at most width bytes. Lines that follow each other form a
// paragraph. A line that begins with a space, such as an example, stays as it is.
func Wrap(text string, width int) string {
	var out []string
	line := ""
	flush := func() {
		if line != "" {
			out = append(out, line)
		}
		line = ""
	}
	for _, in := range strings.Split(text, "\n") {
		if strings.HasPrefix(in, " ") || in == "" {
			flush()
			out = append(out, in)
			continue
		}
		for _, word := range strings.Fields(in) {
			if line != "" && len(line)+1+len(word) > width {
				flush()
			}
			line = strings.TrimPrefix(line+" "+word, " ")
		}
	}
	flush()
	return strings.Join(out, "\n")
}
