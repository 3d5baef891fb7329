package consul

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/internal/consul"
	"github.com/open-nomad/open-nomad/internal/consul/reconcile"
	"github.com/open-nomad/open-nomad/nomad"
)

// maxNames limits the names of services in an event.
const maxNames = 3

// Events returns the events of the tasks of services that Consul does not register, or registers again: one for each error,
// since an outage fails all services with the same one, and tasks keep few events.
func Events(list []reconcile.State) []*nomad.TaskEvent {
	var errs []string
	names := map[string][]string{} // by error, "" for none
	for _, s := range list {
		text := ""
		if s.Err != nil {
			text = consul.Redact(s.Err).Error()
		}
		if names[text] == nil {
			errs = append(errs, text)
		}
		names[text] = append(names[text], s.Name)
	}
	var out []*nomad.TaskEvent
	for _, text := range errs {
		out = append(out, event(names[text], text, list[0].Failures))
	}
	return out
}

func event(names []string, err string, failures int) *nomad.TaskEvent {
	what, verb, them := fmt.Sprintf("service %q", names[0]), "is", "it"
	if len(names) > 1 {
		what, verb, them = some(names), "are", "them"
	}
	if err == "" {
		return &nomad.TaskEvent{Type: nomad.TaskConsul, Message: fmt.Sprintf("%s %s registered in Consul again", what, verb)}
	}
	return &nomad.TaskEvent{Type: nomad.TaskConsul, Message: fmt.Sprintf("%s %s not registered in Consul after %d attempts: %s. "+
		"The task is not affected and the registration is repeated. Check that the agent of Consul on this node answers, and that the "+
		"token of the service, or without one that of the Nomad agent, has service:write for %s", what, verb, failures, err, them)}
}

// some returns the number of services and the first names.
func some(names []string) string {
	var quoted []string
	for _, n := range slices.Compact(slices.Sorted(slices.Values(names))) {
		quoted = append(quoted, fmt.Sprintf("%q", n))
	}
	if more := len(quoted) - maxNames; more > 0 {
		quoted = append(quoted[:maxNames], fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%d services (%s)", len(names), strings.Join(quoted, ", "))
}
