// Package man writes manual pages of commands in mdoc, the macros that groff and mandoc render. Each
// command has a page of its own, such as nomad-job-run(1). The page nomad(1) lists all commands, and
// the flags and environment variables that they share. Command packaging/man writes the pages to
// files.
//
// It has no goroutines and no state.
package man

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/pattern"
)

// Pages returns the text of each page by its file name. Refused commands have none.
func Pages(commands []term.Command, date time.Time) map[string]string {
	pages := map[string]string{}
	var shown []term.Command
	for _, c := range commands {
		if c.Refused == "" {
			shown = append(shown, c)
			pages[nameOf(c.Name)+".1"] = page(c, date)
		}
	}
	slices.SortFunc(shown, func(a, b term.Command) int { return strings.Compare(a.Name, b.Name) })
	pages["nomad.1"] = overview(shown, date)
	return pages
}

func nameOf(command string) string { return "nomad-" + strings.ReplaceAll(command, " ", "-") }

// writer writes macros and text.
type writer struct{ strings.Builder }

// macro writes a line with a macro; its arguments are quoted.
func (w *writer) macro(name string, args ...string) {
	w.WriteString("." + name)
	for _, a := range args {
		w.WriteString(` "` + strings.ReplaceAll(escape(a), `"`, `\(dq`) + `"`)
	}
	w.WriteByte('\n')
}

// sentence matches the end of a sentence within a line: roff expects the next one on its own line.
var sentence = pattern.Lazy(`([^\s.][.?!]) +`)

// text writes paragraphs. Indented lines are shown as they are.
func (w *writer) text(text string) {
	literal, separated := false, true
	for line := range strings.Lines(strings.Trim(text, "\n")) {
		line = strings.TrimRight(line, "\n ")
		indented := strings.HasPrefix(line, " ")
		if literal && line != "" && !indented {
			w.WriteString(".Ed\n.Pp\n")
			literal, separated = false, true
		}
		switch {
		case line == "" && literal, line == "" && separated:
			continue
		case line == "":
			separated = true
			continue
		case indented && !literal:
			w.WriteString(".Bd -literal -offset indent\n")
			literal = true
		case !literal && separated && w.Len() > 0 && !strings.HasSuffix(w.String(), ".Pp\n") && !w.isHeading():
			w.WriteString(".Pp\n")
		}
		separated = false
		if !literal {
			line = sentence().ReplaceAllString(line, "$1\n")
		}
		for part := range strings.SplitSeq(line, "\n") {
			w.WriteString(escape(strings.TrimPrefix(part, "  ")) + "\n")
		}
	}
	if literal {
		w.WriteString(".Ed\n")
	}
}

// isHeading reports whether the last line begins a section or an item, after which no paragraph begins.
func (w *writer) isHeading() bool {
	lines := strings.Split(strings.TrimSuffix(w.String(), "\n"), "\n")
	last := lines[len(lines)-1]
	return strings.HasPrefix(last, ".Sh ") || strings.HasPrefix(last, ".It ")
}

// escape returns a text that roff prints as it is.
func escape(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "`", `\(ga`, "'", `\(aq`, "-", `\-`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

func head(w *writer, name, short string, date time.Time) {
	fmt.Fprintf(w, ".Dd %s\n.Dt %s 1\n.Os open-nomad\n.Sh NAME\n.Nm %s\n.Nd ", date.Format("January 2, 2006"), strings.ToUpper(name), name)
	w.WriteString(escape(strings.ToLower(short[:1])+short[1:]) + "\n")
}

// page returns the page of one command.
func page(c term.Command, date time.Time) string {
	w := &writer{}
	head(w, nameOf(c.Name), strings.TrimSuffix(c.Short, "."), date)
	w.WriteString(".Sh SYNOPSIS\n")
	for i, name := range append([]string{c.Name}, c.Alias...) {
		if i > 0 {
			w.WriteString(".br\n")
		}
		w.macro("Ic", strings.TrimSpace("nomad "+name+" [options] "+c.Args))
	}
	w.WriteString(".Sh DESCRIPTION\n")
	w.text(strings.TrimSuffix(c.Short, ".") + ".\n\n" + c.Long)
	w.flags("OPTIONS", c.OwnFlags())
	if !c.Local {
		w.WriteString(".Pp\nThe options that select and authenticate the agent are in nomad(1).\n")
	}
	if c.Example != "" {
		w.WriteString(".Sh EXAMPLES\n.Bd -literal -offset indent\n")
		for line := range strings.Lines(c.Example) {
			w.WriteString(escape(strings.TrimSuffix(line, "\n")) + "\n")
		}
		w.WriteString(".Ed\n")
	}
	w.WriteString(".Sh SEE ALSO\n.Xr nomad 1\n")
	return w.String()
}

// flags writes the section of the flags.
func (w *writer) flags(title string, set *flag.FlagSet) {
	first := true
	set.VisitAll(func(f *flag.Flag) {
		if strings.HasPrefix(f.Usage, "Not part of this version") {
			return
		}
		if first {
			w.WriteString(".Sh " + title + "\n.Bl -tag -width Ds\n")
			first = false
		}
		arg, usage := flag.UnquoteUsage(f)
		if arg != "" {
			arg = "=<" + arg + ">"
		}
		w.macro("It", "-"+f.Name+arg)
		w.text(usage)
	})
	if !first {
		w.WriteString(".El\n")
	} else {
		w.WriteString(".Sh " + title + "\nThis command has no options of its own.\n")
	}
}
