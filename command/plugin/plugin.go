// Package plugin is the command plugin status, which lists the CSI plugins of a cluster. Clusters of
// this project have no CSI plugins. The drivers and CNI plugins of a node are in its attributes.
package plugin

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// stub is a plugin in the list.
type stub struct {
	ID                  string
	Provider            string
	ControllerRequired  bool
	ControllersHealthy  int
	ControllersExpected int
	NodesHealthy        int
	NodesExpected       int
}

// Commands lists the command of this package.
func Commands() []term.Command {
	return []term.Command{{
		Name: "plugin status", Args: "[plugin]", MaxArgs: 1, Short: "List the CSI plugins",
		Long: "Lists all plugins, or those whose ID begins with the argument. Drivers and host volume plugins are attributes of nodes: see " +
			"nomad node status -verbose.\n\n    nomad plugin status\n    nomad plugin status -type=csi ebs",
		Setup: func(f *term.Flags) term.Run {
			kind := f.String("type", "csi", "The `type` of the plugins: csi.")
			f.Bool("short", false, "No effect: only the list is printed in any case.")
			f.Detail("No effect: IDs are always complete.")
			var formats term.Formats
			formats.Declare(f)
			return func(ctx context.Context, e *term.Env) error {
				if *kind != "csi" {
					return fmt.Errorf("Unknown plugin type %q: use csi", *kind)
				}
				return status(ctx, e, &formats)
			}
		},
	}}
}

func status(ctx context.Context, e *term.Env, formats *term.Formats) error {
	c, err := e.Client()
	if err != nil {
		return err
	}
	var all []stub
	if _, err := c.Raw().Query("/v1/plugins?type=csi", &all, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return fmt.Errorf("Error querying CSI plugins: %w", err)
	}
	all = slices.DeleteFunc(all, func(p stub) bool { return !strings.HasPrefix(p.ID, e.Arg(0)) })
	switch {
	case len(all) == 0 && e.Arg(0) != "":
		return fmt.Errorf("No plugins with prefix or ID %q found", e.Arg(0))
	case formats.Wanted():
		return formats.Print(e, all)
	case len(all) == 0:
		e.Println("No CSI plugins")
		return nil
	}
	rows := []string{"ID|Provider|Controllers Healthy/Expected|Nodes Healthy/Expected"}
	for _, p := range all {
		controllers := fmt.Sprintf("%d/%d", p.ControllersHealthy, p.ControllersExpected)
		if !p.ControllerRequired {
			controllers = "-"
		}
		rows = append(rows, term.Row(p.ID, p.Provider, controllers, fmt.Sprintf("%d/%d", p.NodesHealthy, p.NodesExpected)))
	}
	e.Println(term.Table(rows))
	return nil
}
