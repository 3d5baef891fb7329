package exec2

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/internal/denials"
	"github.com/open-nomad/open-nomad/plugins/drivers"
)

// Types of the events of this driver.
const (
	denialEvent   = "Sandbox Denial"
	mismatchEvent = "Sandbox Mismatch"
)

// inMessage limits the denials in a message; the details have all of them.
const inMessage = 3

// denied reports the denials of a task as an event.
func (w *watch) denied(r denials.Report) {
	w.mu.Lock()
	plain := w.plain
	w.mu.Unlock()
	first := len(r.Denials) - r.New
	fresh := slices.Clone(r.Denials[first:])
	slices.SortStableFunc(fresh, func(a, b denials.Denial) int {
		return map[bool]int{true: 1}[a.Common()] - map[bool]int{true: 1}[b.Common()]
	})
	var parts []string
	for _, d := range fresh[:min(len(fresh), inMessage)] {
		text := d.Text("unveil")
		if plain {
			text = d.Text(fmt.Sprintf("unveil_paths of the node's plugin %q", w.name))
		}
		if n := r.Counts[slices.Index(r.Denials, d)]; r.Flood() && n > 1 {
			text += fmt.Sprintf(" %d times", n)
		}
		parts = append(parts, text)
	}
	if n := len(fresh) - len(parts); n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	if len(fresh) == 0 {
		parts = append(parts, "repeated denials, or more than can be listed")
	}
	if r.Flood() {
		parts[0] = fmt.Sprintf("%d operations: %s", r.Count, parts[0])
	}
	if r.Last {
		parts = append(parts, "further denials of this task are not reported")
	}
	e := &drivers.TaskEvent{TaskID: r.TaskID, Type: denialEvent, At: r.At,
		Message: "the sandbox refused " + strings.Join(parts, "; "), Details: map[string]string{}}
	raw, err := json.Marshal(r.Denials)
	if err != nil {
		w.log.Error("report denials of a task", "task", r.TaskID, "err", err)
		return
	}
	e.Details["denials"], e.Details["count"] = string(raw), strconv.Itoa(r.Count)
	if r.More {
		e.Details["more"] = "true"
	}
	w.emit(e)
}
