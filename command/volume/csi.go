package volume

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// createCSI creates a volume in its storage system, or updates a registered one.
func createCSI(e *term.Env, c *api.Client, req *api.CSIVolumeCreateRequest, w *api.WriteOptions) error {
	out, _, err := c.CSIVolumes().CreateOpts(req, w)
	if err != nil {
		return fmt.Errorf("Error creating volume: %w", err)
	}
	warn(e, out.Warnings)
	for _, v := range out.Volumes {
		e.Printf("Created external volume %s with ID %s\n", term.Cell(v.ExternalID), v.ID)
	}
	return nil
}

// registerCSI registers a volume that exists in its storage system, or updates a registered one.
func registerCSI(e *term.Env, c *api.Client, req *api.CSIVolumeRegisterRequest, w *api.WriteOptions) error {
	out, _, err := c.CSIVolumes().RegisterOpts(req, w)
	if err != nil {
		return fmt.Errorf("Error registering volume: %w", err)
	}
	warn(e, out.Warnings)
	e.Printf("Volume %q registered\n", req.Volumes[0].ID)
	return nil
}

// csiMatches returns the CSI volumes whose ID begins with the prefix, or the only one with this ID.
func csiMatches(ctx context.Context, e *term.Env, c *api.Client, prefix string) ([]*api.CSIVolumeListStub, error) {
	list, _, err := c.CSIVolumes().List((&api.QueryOptions{Namespace: e.Namespace(), Prefix: prefix}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error querying volumes: %w", err)
	}
	exact := slices.DeleteFunc(slices.Clone(list), func(v *api.CSIVolumeListStub) bool { return v.ID != prefix })
	if len(exact) > 0 { // several with namespace *
		return exact, nil
	}
	return list, nil
}

// findCSI returns the only CSI volume that a prefix matches.
func findCSI(ctx context.Context, e *term.Env, c *api.Client, prefix string) (*api.CSIVolumeListStub, error) {
	list, err := csiMatches(ctx, e, c, prefix)
	if err != nil {
		return nil, err
	}
	if len(list) == 1 {
		return list[0], nil
	}
	err = matched(prefix, nil, list)
	if len(list) == 0 {
		if host, hostErr := hostMatches(ctx, e, c, prefix); hostErr == nil && len(host) > 0 {
			err = fmt.Errorf("%w: it is a dynamic host volume, which needs -type host where a command has this flag", err)
		}
	}
	return nil, err
}

// deleteCSI deletes the CSI volume of the argument.
func deleteCSI(ctx context.Context, e *term.Env, c *api.Client, secrets api.CSISecrets) error {
	v, err := findCSI(ctx, e, c, e.Arg(0))
	if err != nil {
		return err
	}
	req := &api.CSIVolumeDeleteRequest{ExternalVolumeID: v.ID, Secrets: secrets}
	if err := c.CSIVolumes().DeleteOpts(req, writing(ctx, v.Namespace)); err != nil {
		return fmt.Errorf("Error deleting volume: %w", err)
	}
	e.Printf("Successfully deleted volume %q!\n", v.ID)
	return nil
}

func deregisterCommand() term.Command {
	return term.Command{
		Name: "volume deregister", Args: "<volume>", MinArgs: 1, MaxArgs: 1,
		Short: "Deregister a CSI volume, and keep its data",
		Long: "Deregisters a volume that no allocation uses, by a prefix of its ID. The storage system keeps the volume; " +
			"'nomad volume delete' removes it there too.",
		Setup: func(f *term.Flags) term.Run {
			force := f.Bool("force", false, "Drop the claims of ended allocations. The volume may stay mounted on their nodes. Asks first.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				v, err := findCSI(ctx, e, c, e.Arg(0))
				if err != nil {
					return err
				}
				if *force {
					if goOn, err := confirmForce(e, v.ID); !goOn {
						return err
					}
				}
				if err := c.CSIVolumes().Deregister(v.ID, *force, writing(ctx, v.Namespace)); err != nil {
					return fmt.Errorf("Error deregistering volume: %w", err)
				}
				e.Printf("Successfully deregistered volume %q!\n", v.ID)
				return nil
			}
		},
	}
}

// confirmForce asks whether to force a deregistration. Only the exact answer "y" goes on. Other answers end the command as
// those of Nomad 2.0 do: with success after n, nothing or a longer word with y, else with an error.
func confirmForce(e *term.Env, id string) (goOn bool, err error) {
	e.Printf("Are you sure you want to force deregister volume %q? [y/N] ", id)
	answer, readErr := bufio.NewReader(e.In).ReadString('\n')
	if readErr != nil && answer == "" {
		e.Println()
		return false, fmt.Errorf("Error reading the answer: standard input ended: nothing deregistered")
	}
	answer = strings.TrimRight(answer, "\r\n")
	lower := strings.ToLower(answer)
	switch {
	case answer == "y":
		return true, nil
	case answer == "", strings.HasPrefix(lower, "n"):
		e.Println("Cancelling volume deregister")
		return false, nil
	case strings.HasPrefix(lower, "y"):
		e.Println("Nothing deregistered: only the exact answer y goes on")
		return false, nil
	}
	return false, fmt.Errorf("Nothing deregistered: the answer is neither y nor n")
}

func detachCommand() term.Command {
	return term.Command{
		Name: "volume detach", Args: "<volume> <node>", MinArgs: 2, MaxArgs: 2,
		Short: "Release the claims of ended allocations of a node on a CSI volume",
		Long: "Unmounts the volume on the node and detaches it, for the allocations that have ended. Running allocations keep the " +
			"volume. A node that is down is not asked. The arguments are prefixes of IDs. 'nomad volume status VOLUME' shows the " +
			"claims that wait, and what for.",
		Setup: func(*term.Flags) term.Run {
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				v, err := findCSI(ctx, e, c, e.Arg(0))
				if err != nil {
					return err
				}
				node, err := findNode(ctx, c, v, e.Arg(1))
				if err != nil {
					return err
				}
				if err := c.CSIVolumes().Detach(v.ID, node, writing(ctx, v.Namespace)); err != nil {
					return fmt.Errorf("Error detaching volume: %w", err)
				}
				e.Printf("Successfully detached volume %q from node %q!\n", v.ID, node)
				return nil
			}
		},
	}
}

// uuidLength is the length of the complete ID of a node.
const uuidLength = 36

// findNode returns the ID of the node that a prefix matches: of the cluster, or else one that an allocation or a claim of
// the volume names, for a node that is gone.
func findNode(ctx context.Context, c *api.Client, of *api.CSIVolumeListStub, prefix string) (string, error) {
	prefix = strings.ToLower(prefix)
	var ids []string
	nodes, _, listErr := c.Nodes().List((&api.QueryOptions{Prefix: term.UUIDPrefix(prefix)}).WithContext(ctx))
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	ids = withPrefix(ids, prefix)
	if len(ids) == 0 {
		v, _, err := c.CSIVolumes().Info(of.ID, (&api.QueryOptions{Namespace: of.Namespace}).WithContext(ctx))
		if err != nil {
			return "", fmt.Errorf("Error querying volume: %w", err)
		}
		for _, a := range v.Allocations {
			ids = append(ids, a.NodeID)
		}
		for _, r := range v.Releases {
			ids = append(ids, r.NodeID)
		}
		ids = withPrefix(ids, prefix)
	}
	switch {
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) > 1:
		return "", fmt.Errorf("Prefix matched multiple nodes\n\n%s", strings.Join(ids, "\n"))
	case len(prefix) == uuidLength:
		return prefix, nil // the servers may still have a claim of it
	case listErr != nil:
		return "", fmt.Errorf("Error querying nodes: %w", listErr)
	}
	return "", fmt.Errorf("No nodes with prefix or ID %q found, and volume %q is not used on one", prefix, of.ID)
}

// withPrefix returns the IDs with a prefix, sorted, each once.
func withPrefix(ids []string, prefix string) []string {
	ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, prefix) })
	slices.Sort(ids)
	return slices.Compact(ids)
}
