package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// marks maps the type of a difference to the mark before its line.
var marks = map[string]string{"Added": "+", "Deleted": "-", "Edited": "+/-", unchanged: ""}

// unchanged is the type of a diff entry without changes.
const unchanged = "None"

// Diff formats the diff of two jobs, indented by depth. Without full detail
// it omits unchanged fields and objects.
func Diff(d *api.JobDiff, detail term.Detail) string {
	w := &diffWriter{detail: detail}
	w.line(0, d.Type, "Job: %q", d.ID)
	w.fields(1, d.Fields)
	w.objects(1, d.Objects)
	for _, g := range d.TaskGroups {
		if g.Type == unchanged && len(g.Updates) == 0 && !detail {
			continue
		}
		w.line(0, g.Type, "Task Group: %q%s", g.Name, updates(g.Updates))
		w.fields(1, g.Fields)
		w.objects(1, g.Objects)
		for _, t := range g.Tasks {
			if t.Type == unchanged && !detail {
				continue
			}
			w.line(1, t.Type, "Task: %q%s", t.Name, annotations(t.Annotations))
			w.fields(2, t.Fields)
			w.objects(2, t.Objects)
		}
	}
	return w.String()
}

type diffWriter struct {
	strings.Builder
	detail term.Detail
}

func (w *diffWriter) line(depth int, kind, format string, a ...any) {
	mark := marks[kind]
	if mark != "" {
		mark += " "
	}
	fmt.Fprintf(w, "%s%s%s\n", strings.Repeat("  ", depth), mark, fmt.Sprintf(format, a...))
}

func (w *diffWriter) fields(depth int, fields []*api.FieldDiff) {
	for _, f := range fields {
		switch f.Type {
		case "Added":
			w.line(depth, f.Type, "%s: %q%s", f.Name, f.New, annotations(f.Annotations))
		case "Deleted":
			w.line(depth, f.Type, "%s: %q%s", f.Name, f.Old, annotations(f.Annotations))
		case "Edited":
			w.line(depth, f.Type, "%s: %q => %q%s", f.Name, f.Old, f.New, annotations(f.Annotations))
		default:
			if w.detail {
				w.line(depth, f.Type, "%s: %q", f.Name, f.New)
			}
		}
	}
}

func (w *diffWriter) objects(depth int, objects []*api.ObjectDiff) {
	for _, o := range objects {
		if o.Type == unchanged && !w.detail {
			continue
		}
		w.line(depth, o.Type, "%s {", o.Name)
		w.fields(depth+1, o.Fields)
		w.objects(depth+1, o.Objects)
		w.line(depth, unchanged, "}")
	}
}

// updates formats the number of allocations for each kind of update.
func updates(counts map[string]uint64) string {
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	if len(out) == 0 {
		return ""
	}
	return " (" + strings.Join(out, ", ") + ")"
}

func annotations(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}
