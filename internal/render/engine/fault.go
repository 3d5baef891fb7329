package engine

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/internal/render"
)

// fault is an error of a template, which ends the program.
type fault struct {
	template int // index, or -1
	line     int // or 0
	text     string
	memory   bool // the evaluation exceeded the memory limit
}

// Error returns the text with its line.
func (f *fault) Error() string { return fmt.Sprintf("line %d: %s", f.line, f.text) }

func (f *fault) frame() render.Fatal {
	return render.Fatal{Template: f.template, Line: f.line, Text: f.text, Memory: f.memory}
}

// libraryError matches an error of text/template: the line, the failed expression unless the error is about
// syntax, and the message.
var libraryError = pattern.Lazy(`(?s)template: [^:]*:(\d+)(?::\d+)?: (?:executing ".*?" at <(.*?)>: )?(.*)$`)

// nestedError matches the error of a template that executeTemplate has executed: the line and the message. The name of the
// main template is empty.
var nestedError = pattern.Lazy(`(?s)^template: :(\d+)(?::\d+)?: executing "[^"]*" at <[^>]*>: (.*)$`)

// failedCall matches the message of a function that returned an error.
var failedCall = pattern.Lazy(`(?s)^error calling (\w+): (.*)$`)

// harmless holds the beginnings of the messages that consist of names and types only.
var harmless = []string{
	"map has no entry for key ", "nil data; no entry for key ", "nil pointer evaluating ", "can't evaluate field ",
	"wrong number of args for ", "wrong type for value; expected ", "exceeded maximum template depth ",
}

// explain makes a fault of an error of the library. The message of an error can contain values:
// of variables, files and the environment. So it is kept only if it is known to contain none, as are
// the errors of syntax, which quote the template.
func (e *engine) explain(index int, text string) *fault {
	match := libraryError().FindStringSubmatch(text)
	if match == nil {
		return &fault{template: index, text: "the template cannot be evaluated"}
	}
	line, err := strconv.Atoi(match[1])
	if err != nil {
		line = 0
	}
	at, message := match[2], match[3]
	if strings.HasPrefix(text, "parse: ") {
		return &fault{template: index, line: line, text: "syntax: " + message}
	}
	return &fault{template: index, line: line, text: fmt.Sprintf("at <%s>: %s", at, e.harmlessMessage(message))}
}

func (e *engine) harmlessMessage(message string) string {
	if call := failedCall().FindStringSubmatch(message); call != nil {
		name, text := call[1], call[2]
		if inner := nestedError().FindStringSubmatch(text); inner != nil && name == "executeTemplate" {
			return fmt.Sprintf("executeTemplate: line %s: %s", inner[1], e.harmlessMessage(inner[2]))
		}
		switch {
		case text == "function is disabled" || e.refusals()[name] != "":
			return fmt.Sprintf("%s: %s", name, text)
		case e.consul != nil && ofConsul[name]:
			return fmt.Sprintf("%s: malformed argument (the message can contain values and is omitted)", name)
		case ownErrors[name]:
			return fmt.Sprintf("%s: %s", name, text)
		}
		return fmt.Sprintf("%s failed (its message can contain values and is omitted)", name)
	}
	for _, start := range harmless {
		if strings.HasPrefix(message, start) {
			return message
		}
	}
	return "failed (the message can contain values and is omitted)"
}
