package taskhook

import (
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/client/dns"
	"github.com/open-nomad/open-nomad/nomad"
)

// maxUnnamed is the maximum number of services and tags in the text of an event.
const maxUnnamed = 3

// reportNames emits an event if DNS cannot find services or tags of the task. The first task also reports those of its
// group. It names them as in the job: the environment can have secrets.
func (h *dnsHook) reportNames(req *TaskPrestartRequest, group *nomad.TaskGroup) {
	if h.node == nil || h.reported {
		return
	}
	h.reported = true
	services := req.Task.Services
	if len(group.Tasks) > 0 && group.Tasks[0].Name == req.Task.Name {
		services = slices.Concat(group.Services, services)
	}
	var lost []string
	for _, s := range services {
		name := req.Env.Expand(s.Name)
		switch {
		case s.Provider != nomad.ServiceProviderNomad:
		case !dns.CanAsk(name, ""):
			lost = append(lost, fmt.Sprintf("service %.64q", s.Name))
		default:
			for _, tag := range slices.Concat(s.Tags, s.CanaryTags) {
				if text := req.Env.Expand(tag); text != "" && !dns.CanAsk(name, text) {
					lost = append(lost, fmt.Sprintf("tag %.64q of service %.64q", tag, s.Name))
				}
			}
		}
	}
	if len(lost) == 0 {
		return
	}
	if more := len(lost) - maxUnnamed; more > 0 {
		lost = append(lost[:maxUnnamed], fmt.Sprintf("%d more", more))
	}
	text := "DNS answers that these names do not exist, the API finds them: " + strings.Join(lost, ", ")
	h.control.Emit(&nomad.TaskEvent{Type: nomad.TaskHookMessage, Message: text, DisplayMessage: text})
}
