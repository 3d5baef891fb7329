package stream

import (
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/state/table"
	"github.com/open-nomad/open-nomad/nomad/variable"
)

// Estimates of the bytes that a row takes in the ring: the row itself, since state may have a newer one, and its JSON.
const (
	writeBytes = 24   // of a table.Write
	rowBytes   = 2048 // of a row, without its variable parts
	partBytes  = 2048 // of a group or a task of a job, or of a device or driver of a node
	stateBytes = 512  // of the state of a task, a claim or an instance of a plugin
	eventBytes = 1024 // of an event of a task or a node
)

// sizeOf estimates the bytes of the rows of an entry. It must be fast, because the FSM waits for it.
func sizeOf(rows []table.Write) int {
	total := len(rows) * writeBytes
	for _, w := range rows {
		total += rowBytes + variableSize(w.Row)
	}
	return total
}

// variableSize estimates the bytes of the parts of a row that vary most.
func variableSize(row any) (n int) {
	switch r := row.(type) {
	case *nomad.Allocation:
		for _, s := range r.TaskStates {
			n += stateBytes
			if s != nil {
				n += len(s.Events) * eventBytes
			}
		}
	case *nomad.Job:
		for _, tg := range r.TaskGroups {
			n += partBytes * (1 + len(tg.Tasks))
			for _, t := range tg.Tasks {
				for _, tmpl := range t.Templates {
					n += 2 * len(tmpl.EmbeddedTmpl)
				}
			}
		}
		n += 2 * len(r.Payload)
	case *nomad.Node:
		n = len(r.Events)*eventBytes + (len(r.Drivers)+len(r.HostVolumes))*partBytes + len(r.Attributes)*eventBytes/8
	case *csi.Volume:
		n = (len(r.ReadClaims) + len(r.WriteClaims) + len(r.PastClaims)) * stateBytes
	case *csi.Plugin:
		n = (len(r.Controllers) + len(r.Nodes)) * stateBytes
	case *variable.Encrypted:
		n = len(r.Data)
	}
	return n
}
