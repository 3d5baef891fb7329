package denials

import (
	"bytes"
	"fmt"
	"os"
	"slices"
)

// maxDomains limits the known Landlock domains of a task, which can create nested ones.
const maxDomains = 64

// owners attributes records to tasks. When a record is read, the process may have ended and its PID
// may be reused. The criteria are, in this order: the Landlock domain, a uid that only one task
// has, the control group of the process, and the PID of a task's main process.
type owners struct {
	byUID   map[int]string
	byGroup map[string]string
	byPID   map[int]string
	domains map[string]string   // domain → task
	of      map[string][]string // task → domains
	group   func(pid int) []string
}

func newOwners() owners {
	return owners{byUID: map[int]string{}, byGroup: map[string]string{}, byPID: map[int]string{},
		domains: map[string]string{}, of: map[string][]string{}, group: groupsOf}
}

func (o *owners) add(t Task) {
	if t.UID >= 0 {
		o.byUID[t.UID] = t.ID
	}
	if t.Group != "" {
		o.byGroup[t.Group] = t.ID
	}
	if t.PID > 0 {
		o.byPID[t.PID] = t.ID
	}
}

// replace updates the uid, group or PID of a task and keeps its domains.
func (o *owners) replace(old, next Task) {
	o.unlist(old)
	o.add(next)
}

func (o *owners) remove(t Task) {
	o.unlist(t)
	for _, d := range o.of[t.ID] {
		delete(o.domains, d)
	}
	delete(o.of, t.ID)
}

func (o *owners) unlist(t Task) {
	// Entries that a later task has taken over stay.
	if o.byUID[t.UID] == t.ID {
		delete(o.byUID, t.UID)
	}
	if o.byGroup[t.Group] == t.ID {
		delete(o.byGroup, t.Group)
	}
	if o.byPID[t.PID] == t.ID {
		delete(o.byPID, t.PID)
	}
}

func (o *owners) ofDomain(domain string) string { return o.domains[domain] }

// learn records the task of a domain.
func (o *owners) learn(domain, id string) {
	if domain == "" || len(domain) > 16 || len(o.of[id]) == maxDomains || o.domains[domain] != "" {
		return
	}
	o.domains[domain] = id
	o.of[id] = append(o.of[id], domain)
}

func (o *owners) forget(domain string) {
	id := o.domains[domain]
	delete(o.domains, domain)
	o.of[id] = slices.DeleteFunc(o.of[id], func(d string) bool { return d == domain })
	if len(o.of[id]) == 0 {
		delete(o.of, id)
	}
}

// ofRecord returns the task of the process in a record, or "".
func (o *owners) ofRecord(r record) string {
	if uid, ok := r.number("uid"); ok {
		if id := o.byUID[uid]; id != "" {
			return id
		}
	}
	pid, ok := r.number("pid")
	if !ok || pid == 0 {
		return ""
	}
	for _, g := range o.group(pid) {
		if id := o.byGroup[g]; id != "" {
			return id
		}
	}
	return o.byPID[pid]
}

// groupsOf lists the names on the paths of a process's control groups.
func groupsOf(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil // the process has ended
	}
	var out []string
	for line := range bytes.Lines(text) {
		_, path, _ := bytes.Cut(line, []byte(":/"))
		for name := range bytes.SplitSeq(bytes.TrimSpace(path), []byte("/")) {
			out = append(out, string(name))
		}
	}
	return out
}
