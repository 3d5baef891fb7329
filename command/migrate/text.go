package migrate

import (
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/command/term"
)

// shownJobs is the maximum number of jobs per finding without -verbose.
const shownJobs = 5

// textWidth is the length of the longest line of a step.
const textWidth = 95

// Text formats the report. With full detail it lists all jobs.
func (r *Report) Text(detail term.Detail) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", term.Pairs([]string{term.Row("State at index", r.Index), term.Row("Jobs", r.Jobs),
		term.Row("Nodes", r.ClientNodes)}))
	if r.Cluster != nil {
		r.Cluster.text(&b)
	}
	findings(&b, "Features in use that this version does not serve", r.Features, detail)
	findings(&b, "Drivers and plugins that are not part of clients of this version", r.Nodes, detail)
	if r.Consul != nil {
		r.Consul.text(&b)
	}
	if len(r.Vault) > 0 {
		r.vaultText(&b)
	}
	section(&b, "Configuration")
	for _, k := range r.Configuration {
		place := ""
		if k.Place != "" {
			place = k.Place + ": "
		}
		fmt.Fprintf(&b, "  * %s%s: %s\n", place, k.Key, k.Effect)
	}
	switch {
	case r.Configuration == nil:
		b.WriteString("  Not checked: use -config to check files or directories\n")
	case len(r.Configuration) == 0:
		b.WriteString("  None\n")
	}
	section(&b, "Steps")
	for i, s := range r.Steps {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, strings.ReplaceAll(term.Wrap(s.Text, textWidth), "\n", "\n     "))
		for _, c := range s.Commands {
			fmt.Fprintf(&b, "       %s\n", c)
		}
	}
	b.WriteString("\n")
	if r.Lost {
		b.WriteString("Result: this version does not serve everything in use")
	} else {
		b.WriteString("Result: this version serves everything in use")
	}
	return b.String()
}

func section(b *strings.Builder, title string) { fmt.Fprintf(b, "\n%s\n", title) }

func (c *Cluster) text(b *strings.Builder) {
	section(b, "Cluster")
	show := func(text string) string {
		if text == "" {
			return "not shown"
		}
		return text
	}
	b.WriteString(term.Pairs([]string{term.Row("Region", show(c.Region)), term.Row("TLS of RPC", show(c.RPCTLS)),
		term.Row("Server names verified", show(c.VerifyServerHostname)),
		term.Row("Gossip encryption", show(c.GossipEncryption)), term.Row("Log backend", show(c.LogBackend))}) + "\n")
	if len(c.Servers) > 0 {
		rows := []string{"Server|Build|Status|Leader|Project"}
		for _, s := range c.Servers {
			project := "Nomad"
			if s.Ours {
				project = "open-nomad"
			}
			rows = append(rows, term.Row(s.Name, s.Build, s.Status, s.Leader, project))
		}
		b.WriteString("\n" + term.Table(rows) + "\n")
	}
	for _, u := range c.Unknown {
		fmt.Fprintf(b, "Unknown: %s\n", term.Cell(u))
	}
}

func findings(b *strings.Builder, title string, list []Finding, detail term.Detail) {
	section(b, title)
	for _, f := range list {
		fmt.Fprintf(b, "  * %s\n", term.Cell(f.Effect))
		jobs, more := f.Jobs, ""
		if n := len(jobs) - shownJobs; n > 0 && detail != term.Full {
			jobs, more = jobs[:shownJobs], fmt.Sprintf(" and %d more (-verbose)", n)
		}
		if len(jobs) > 0 {
			fmt.Fprintf(b, "      %s%s\n", term.Cell(strings.Join(jobs, ", ")), more)
		}
	}
	if len(list) == 0 {
		b.WriteString("  None\n")
	}
}
