// Package service implements the commands for native services: service list, service info and service delete. They
// call an agent through package api and keep no state.
package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// none is the output without registrations.
const none = "No service registrations found"

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{listCommand(), infoCommand(), deleteCommand()}
}

func query(ctx context.Context, e *term.Env) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: e.Namespace()}).WithContext(ctx)
}

func listCommand() term.Command {
	return term.Query(term.Command{Name: "service list", Short: "List the services",
		Long: "Shows each service with the tags of all its registrations."},
		func(f *term.Flags) term.Ask[[]*api.ServiceRegistrationListStub] {
			name := f.String("name", "", "Only the service with this `name`.")
			return func(ctx context.Context, e *term.Env, c *api.Client) ([]*api.ServiceRegistrationListStub, error) {
				list, _, err := c.Services().List(query(ctx, e))
				if err != nil {
					return nil, fmt.Errorf("Error listing service registrations: %w", err)
				}
				return named(list, *name), nil
			}
		},
		func(e *term.Env, list []*api.ServiceRegistrationListStub) {
			if len(list) == 0 {
				e.Println(none)
				return
			}
			e.Println(stubTable(list, e.Namespace() == "*"))
		})
}

// named returns the services with the name, or all if the name is empty.
func named(list []*api.ServiceRegistrationListStub, name string) []*api.ServiceRegistrationListStub {
	out := []*api.ServiceRegistrationListStub{}
	for _, ns := range list {
		kept := slices.DeleteFunc(slices.Clone(ns.Services),
			func(s *api.ServiceRegistrationStub) bool { return name != "" && s.ServiceName != name })
		if len(kept) > 0 {
			out = append(out, &api.ServiceRegistrationListStub{Namespace: ns.Namespace, Services: kept})
		}
	}
	return out
}

// stubTable formats services by namespace and name.
func stubTable(list []*api.ServiceRegistrationListStub, namespaces bool) string {
	rows := []string{"Service Name|Tags"}
	if namespaces {
		rows = []string{"Service Name|Namespace|Tags"}
	}
	for _, ns := range list {
		sorted := slices.SortedFunc(slices.Values(ns.Services),
			func(a, b *api.ServiceRegistrationStub) int { return cmp.Compare(a.ServiceName, b.ServiceName) })
		for _, s := range sorted {
			if namespaces {
				rows = append(rows, term.Row(s.ServiceName, ns.Namespace, tags(s.Tags)))
			} else {
				rows = append(rows, term.Row(s.ServiceName, tags(s.Tags)))
			}
		}
	}
	return term.Table(rows)
}

// tags formats tags, sorted.
func tags(list []string) string {
	return "[" + strings.Join(slices.Sorted(slices.Values(list)), ",") + "]"
}

func deleteCommand() term.Command {
	return term.Action(term.Command{Name: "service delete", Args: "<service_name> <service_id>", MinArgs: 2, MaxArgs: 2,
		Short: "Remove a service registration",
		Long: "Clients remove the registrations of ended allocations. Remove one by hand only if its client " +
			"cannot. The client of a running allocation does not notice the removal."},
		func(*term.Flags) term.Ask[string] {
			return func(ctx context.Context, e *term.Env, c *api.Client) (string, error) {
				w := (&api.WriteOptions{Namespace: e.Namespace()}).WithContext(ctx)
				if _, err := c.Services().Delete(e.Arg(0), e.Arg(1), w); err != nil {
					return "", fmt.Errorf("Error deleting service registration: %w", err)
				}
				return "Successfully deleted service registration", nil
			}
		})
}
