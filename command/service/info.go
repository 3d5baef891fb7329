package service

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// page is the flags that select registrations.
type page struct {
	filter, token string
	perPage       int
}

func (p *page) declare(f *term.Flags) {
	f.StringVar(&p.filter, "filter", "", "Only registrations that match this `expression`.")
	f.IntVar(&p.perPage, "per-page", 0, "The maximum number of results per page.")
	f.StringVar(&p.token, "page-token", "", "The token of the next page.")
}

func infoCommand() term.Command {
	return term.Command{
		Name: "service info", Args: "<service_name>", MinArgs: 1, MaxArgs: 1,
		Short: "Show the registrations of a service",
		Long: "The name may be a prefix that matches exactly one service. A registration is removed when its " +
			"allocation ends; failing checks do not hide it. With -verbose, each registration has its metadata, its status and its checks.",
		Setup: func(f *term.Flags) term.Run {
			var p page
			p.declare(f)
			formats := &term.Formats{}
			formats.Declare(f)
			detail := f.Detail("Show all fields and full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				found, next, err := p.registrations(ctx, e)
				switch {
				case err != nil:
					return err
				case formats.Wanted():
					return formats.Print(e, found)
				case len(found) == 0:
					e.Println(none)
				case bool(*detail):
					e.Println(long(found))
				default:
					e.Println(short(found, *detail))
				}
				if next != "" {
					e.Printf("\nResults have been paginated. To get the next page run:\n\nnomad service info -page-token %s %s\n", next, e.Arg(0))
				}
				return nil
			}
		},
	}
}

// registrations returns a page of the registrations of the service that the argument names, by job, and the next token.
func (p *page) registrations(ctx context.Context, e *term.Env) ([]*api.ServiceRegistration, string, error) {
	c, err := e.Client()
	if err != nil {
		return nil, "", err
	}
	ns, name, err := find(ctx, e, c)
	if err != nil {
		return nil, "", err
	}
	q := query(ctx, e)
	q.Namespace, q.Filter, q.NextToken, q.PerPage = ns, p.filter, p.token, int32(p.perPage)
	found, meta, err := c.Services().Get(name, q)
	if err != nil {
		return nil, "", fmt.Errorf("Error listing service registrations: %w", err)
	}
	slices.SortStableFunc(found, func(a, b *api.ServiceRegistration) int { return cmp.Compare(a.JobID, b.JobID) })
	return found, meta.NextToken, nil
}

// find returns the namespace and name of the only service that the argument names, exactly or else as a prefix.
func find(ctx context.Context, e *term.Env, c *api.Client) (ns, name string, err error) {
	list, _, err := c.Services().List(query(ctx, e))
	if err != nil {
		return "", "", fmt.Errorf("Error listing service registrations: %w", err)
	}
	matches := named(list, e.Arg(0))
	if len(matches) == 0 {
		matches = prefixed(list, e.Arg(0))
	}
	switch {
	case len(matches) == 0:
		return "", "", fmt.Errorf("No service registrations with the name or prefix %q found", e.Arg(0))
	case len(matches) > 1 || len(matches[0].Services) > 1:
		return "", "", fmt.Errorf("Prefix matched multiple services\n\n%s", stubTable(matches, true))
	}
	return matches[0].Namespace, matches[0].Services[0].ServiceName, nil
}

// prefixed returns the services whose name begins with the prefix.
func prefixed(list []*api.ServiceRegistrationListStub, prefix string) []*api.ServiceRegistrationListStub {
	var out []*api.ServiceRegistrationListStub
	for _, ns := range list {
		for _, s := range ns.Services {
			if strings.HasPrefix(s.ServiceName, prefix) {
				out = append(out, &api.ServiceRegistrationListStub{Namespace: ns.Namespace, Services: []*api.ServiceRegistrationStub{s}})
			}
		}
	}
	return out
}

// short formats registrations as a table.
func short(found []*api.ServiceRegistration, detail term.Detail) string {
	rows := []string{"Job ID|Address|Tags|Node ID|Alloc ID"}
	for _, r := range found {
		rows = append(rows, term.Row(r.JobID, address(r), tags(r.Tags), detail.ID(r.NodeID), detail.ID(r.AllocID)))
	}
	return term.Table(rows)
}

// long formats all fields of registrations.
func long(found []*api.ServiceRegistration) string {
	var parts []string
	for _, r := range found {
		parts = append(parts, term.Pairs([]string{
			term.Row("ID", r.ID), term.Row("Service Name", r.ServiceName), term.Row("Namespace", r.Namespace), term.Row("Job ID", r.JobID),
			term.Row("Alloc ID", r.AllocID), term.Row("Node ID", r.NodeID), term.Row("Datacenter", r.Datacenter),
			term.Row("Address", address(r)), term.Row("Tags", tags(r.Tags)), term.Row("Meta", meta(r.Meta)),
			term.Row("Status", cmp.Or(r.Status, "passing")),
		})+checks(r.Checks))
	}
	return strings.Join(parts, "\n\n")
}

// meta formats metadata by key.
func meta(pairs map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		out = append(out, key+"="+pairs[key])
	}
	return strings.Join(out, ", ")
}

// checks formats the checks of a registration as a table with a title, or "" without checks.
func checks(list []*api.ServiceCheckState) string {
	if len(list) == 0 {
		return ""
	}
	rows := []string{"Name|Type|Status|Output"}
	for _, c := range list {
		rows = append(rows, term.Row(c.Name, c.Type, c.Status, shortened(c.Output)))
	}
	return "\n\nChecks\n" + term.Table(rows)
}

// shortened returns the beginning of the output of a check. The complete output is in the JSON.
func shortened(output string) string {
	const limit = 120
	runes := []rune(strings.TrimSpace(output))
	if len(runes) <= limit {
		return string(runes)
	}
	return string(runes[:limit]) + "…"
}

// address formats the address of a registration, without a port if it has none.
func address(r *api.ServiceRegistration) string {
	if r.Port == 0 {
		return r.Address
	}
	return net.JoinHostPort(r.Address, strconv.Itoa(r.Port))
}
