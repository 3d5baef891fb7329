package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/jobrules"
	"github.com/open-nomad/open-nomad/nomad/state"
	"github.com/open-nomad/open-nomad/nomad/vault"
)

// VaultJob is a running job with vault blocks.
type VaultJob struct {
	Job  string   // "namespace/id"
	Uses []string // its tasks with their roles
	Keep []string // what it needs of the agents and in Vault
}

// ofVault returns the running jobs with vault blocks, sorted.
func ofVault(s *state.Snapshot) (out []VaultJob) {
	for j := range s.Jobs(nil) {
		if j.Stopped() || j.Status == nomad.JobStatusDead {
			continue
		}
		if of := vaultJob(j); len(of.Uses) > 0 {
			out = append(out, of)
		}
	}
	slices.SortFunc(out, func(a, b VaultJob) int { return strings.Compare(a.Job, b.Job) })
	return out
}

// vaultJob returns what a job uses and needs.
func vaultJob(j *nomad.Job) VaultJob {
	out := VaultJob{Job: j.Namespace + "/" + j.ID}
	missing := false
	for _, tg := range j.TaskGroups {
		if tg == nil {
			continue
		}
		for _, t := range tg.Tasks {
			if t == nil || t.Vault == nil {
				continue
			}
			out.Uses = append(out.Uses, fmt.Sprintf("task %s/%s: role %s", tg.Name, t.Name, cmp.Or(t.Vault.Role, "of the client or the auth method")))
			missing = missing || vault.IdentityOf(t) == nil
		}
	}
	out.Keep = []string{"vault blocks with enabled = true on the servers and its clients"}
	if missing {
		out.Keep = append(out.Keep, "default_identity on the servers, and a registration: a task has no identity for Vault")
	}
	return out
}

// servedByVault reports whether servers and clients with Vault support a feature.
func servedByVault(feature string) bool { return slices.Contains(jobrules.VaultFeatures(), feature) }

// vaultSteps returns the steps of a cluster with jobs that use Vault.
func (r *Report) vaultSteps() []Step {
	if len(r.Vault) == 0 {
		return nil
	}
	return []Step{{Text: fmt.Sprintf("Keep the vault blocks of the agents, for %s. Servers without an enabled block refuse the next "+
		"registration. Let the auth method of Vault read the keys of a server that stays.", plural(len(r.Vault), "job")),
		Commands: []string{"nomad setup vault -check # when all servers run open-nomad"}}}
}

// vaultText lists the jobs that use Vault.
func (r *Report) vaultText(b *strings.Builder) {
	section(b, "Vault")
	for _, j := range r.Vault {
		fmt.Fprintf(b, "  * %s\n", term.Cell(j.Job))
		for _, part := range []struct {
			label string
			lines []string
		}{{"uses:", j.Uses}, {"keep:", j.Keep}} {
			label := part.label
			for _, line := range part.lines {
				fmt.Fprintf(b, "      %-7s%s\n", label, strings.ReplaceAll(term.Wrap(term.Cell(line), consulWidth), "\n", "\n             "))
				label = ""
			}
		}
	}
}
