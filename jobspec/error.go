package jobspec

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// maxFaults is the maximum number of faults in the text of an Error, and maxLine the
// maximum length of a source line.
const (
	maxFaults = 50
	maxLine   = 120
)

// Error lists the faults of a job file. For each fault, its text has the position, the
// problem, what was expected, and the source line:
//
//	hello.hcl:3:5: Unsupported argument: "foo" is not expected here; ...
//	   3 |     foo = 1
//	     |     ^^^
type Error struct {
	diags   hcl.Diagnostics
	sources map[string][]byte
}

// Error returns the text described above.
func (e *Error) Error() string {
	var b strings.Builder
	for i, d := range e.diags {
		if i == maxFaults {
			fmt.Fprintf(&b, "and %d more\n", len(e.diags)-i)
			break
		}
		e.write(&b, d)
	}
	return strings.TrimRight(b.String(), "\n")
}

func (e *Error) write(b *strings.Builder, d *hcl.Diagnostic) {
	detail := strings.Join(strings.Fields(d.Detail), " ")
	if d.Subject == nil {
		fmt.Fprintf(b, "%s: %s\n", d.Summary, detail)
		return
	}
	at := d.Subject
	if at.Start.Line == 0 { // a flag, or an unreadable file
		fmt.Fprintf(b, "%s: %s: %s\n", at.Filename, d.Summary, detail)
		return
	}
	fmt.Fprintf(b, "%s:%d:%d: %s: %s\n", at.Filename, at.Start.Line, at.Start.Column, d.Summary, detail)
	line, before, ok := sourceLine(e.sources[at.Filename], at.Start.Byte)
	if !ok {
		return
	}
	width := 1
	if at.End.Line == at.Start.Line && at.End.Byte > at.Start.Byte {
		width = min(at.End.Byte-at.Start.Byte, utf8.RuneCountInString(line)-before)
	}
	fmt.Fprintf(b, "%4d | %s\n     | %s%s\n", at.Start.Line, line, strings.Repeat(" ", before), strings.Repeat("^", max(width, 1)))
}

// sourceLine returns the line around offset, truncated to maxLine, and the number of
// its characters before offset.
func sourceLine(src []byte, offset int) (line string, before int, ok bool) {
	if offset < 0 || offset > len(src) || len(src) == 0 {
		return "", 0, false
	}
	start := bytes.LastIndexByte(src[:offset], '\n') + 1
	end := len(src)
	if i := bytes.IndexByte(src[offset:], '\n'); i >= 0 {
		end = offset + i
	}
	start = max(start, offset-maxLine/2)
	end = min(end, start+maxLine)
	clean := func(b []byte) string {
		text := strings.ToValidUTF8(strings.ReplaceAll(string(b), "\t", " "), "?")
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, text)
	}
	return clean(src[start:end]), utf8.RuneCountInString(clean(src[start:min(offset, end)])), true
}

// report records the errors of a step. Warnings are dropped.
func (p *parser) report(diags hcl.Diagnostics) {
	for _, d := range diags {
		if d.Severity == hcl.DiagError && len(p.diags) < 10*maxFaults {
			p.diags = append(p.diags, d)
		}
	}
}

// errorf records one fault.
func (p *parser) errorf(at hcl.Range, summary, format string, args ...any) {
	p.report(hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(format, args...), Subject: &at}})
}

func (p *parser) err() error { return &Error{diags: p.diags, sources: p.sources} }
