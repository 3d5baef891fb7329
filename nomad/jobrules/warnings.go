package jobrules

import (
	"fmt"
	"slices"

	"github.com/open-nomad/open-nomad/nomad"
)

// Warnings returns warnings about options of a canonical job that are valid but probably unintended, maxFaults at most.
func Warnings(j *nomad.Job) []string {
	var out []string
	for _, part := range WithoutEffect(j) {
		out = append(out, part.String())
	}
	out = append(out, impossible(j)...)
	for _, tg := range j.TaskGroups {
		at := Place(j.ID, tg.Name, "")
		if u := tg.Update; u != nil && j.Type == nomad.JobTypeSystem && u.Canary > 100 {
			out = append(out, fmt.Sprintf("%s: canary is %d: in a system job it is a percentage, and more than 100 has no further effect", at,
				u.Canary))
		}
		if len(tg.Services) > 0 && tg.ShutdownDelay == nil {
			out = append(out, at+noDelay)
		}
		out = append(out, secretsOfGroup(tg, at)...)
		for _, t := range tg.Tasks {
			at := Place(j.ID, tg.Name, t.Name)
			out = slices.Concat(out, warnings(t, at), noVaultBlock(t, at), vaultTemplates(t, at), secretsInCatalog(t, at))
		}
	}
	return out[:min(len(out), maxFaults)]
}

// noDelay is the warning about services whose tasks are killed as soon as they are deregistered.
const noDelay = ": has services but no shutdown_delay: clients that have read their addresses can still connect when the tasks are stopped"

func warnings(t *nomad.Task, at string) []string {
	var out []string
	if len(t.Services) > 0 && t.ShutdownDelay == 0 {
		out = append(out, at+noDelay)
	}
	if r := t.RestartPolicy; r != nil && exceedsInterval(r) {
		out = append(out, fmt.Sprintf("%s: restart: %d attempts with a delay of %s take longer than the interval of %s, so the task is restarted without limit: increase interval",
			at, r.Attempts, r.Delay, r.Interval))
	}
	if len(t.Resources.Networks) > 0 {
		out = append(out, at+": network in resources is deprecated: use a network block of the group")
	}
	for _, id := range append([]*nomad.WorkloadIdentity{t.Identity}, t.Identities...) {
		named := id.Name != nomad.WorkloadIdentityDefaultName
		add := func(text string) { out = append(out, fmt.Sprintf("%s: the identity %q %s", at, id.Name, text)) }
		if named && len(id.Audience) == 0 {
			add("has no aud: a recipient cannot verify that the token is meant for it")
		}
		if len(id.Audience) > 1 {
			add("has more than one aud: each recipient can present it to the others")
		}
		if named && id.TTL == 0 {
			add("has no ttl: it is valid as long as its allocation")
		}
		if named && id.Env && id.ChangeMode != nomad.WIChangeModeRestart {
			add("is in the environment but change_mode is not restart: the task will keep an old token")
		}
	}
	return out
}
