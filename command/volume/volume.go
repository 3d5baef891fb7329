// Package volume holds the commands for dynamic host volumes: create, register, status, delete, init, claim list and
// claim delete. They call an agent through package api and keep no state. CSI volumes are refused by name.
package volume

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{createCommand(), registerCommand(), statusCommand(), deleteCommand(), initCommand(), claimListCommand(),
		claimDeleteCommand()}
}

// read reads the specification that an argument names. id replaces its ID, unless it is empty.
func read(e *term.Env, id string) (*api.HostVolume, error) {
	text, err := e.Input(e.Arg(0), maxSpec)
	if err != nil {
		return nil, fmt.Errorf("Error reading the volume specification: %w", err)
	}
	v, err := parse(text)
	if err != nil {
		return nil, err
	}
	if id != "" {
		v.ID = id
	}
	return v, nil
}

// writing returns the options of a write about a volume: its namespace precedes that of the environment.
func writing(ctx context.Context, v *api.HostVolume) *api.WriteOptions {
	return (&api.WriteOptions{Namespace: v.Namespace}).WithContext(ctx)
}

func createCommand() term.Command {
	return term.Command{
		Name: "volume create", Args: "<file or ->", MinArgs: 1, MaxArgs: 1,
		Short: "Create a host volume with a plugin of a node",
		Long: "Reads a specification in HCL or JSON from a file, or from standard input with - ('nomad volume init " +
			"-type host' writes an example). " +
			"With an id in the specification or the flag, it updates a volume that no allocation uses. It waits until the volume is ready.",
		Setup: func(f *term.Flags) term.Run {
			detach := f.Bool("detach", false, "Do not wait until the volume is ready.")
			id := f.String("id", "", "The `ID` of a volume to update. Overrides the specification.")
			override := f.Bool("policy-override", false, "Override soft mandatory Sentinel policies.")
			detail := f.Detail("Print complete IDs.")
			return func(ctx context.Context, e *term.Env) error {
				v, err := read(e, *id)
				if err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				out, _, err := c.HostVolumes().Create(&api.HostVolumeCreateRequest{Volume: v, PolicyOverride: *override}, writing(ctx, v))
				if err != nil {
					return fmt.Errorf("Error creating volume: %w", err)
				}
				warn(e, out.Warnings)
				e.Printf("Created host volume %s with ID %s\n", out.Volume.Name, out.Volume.ID)
				if *detach {
					return nil
				}
				shown := detail.ID(out.Volume.ID)
				e.Printf("==> Waiting until volume %q is ready on node %q\n", shown, detail.ID(out.Volume.NodeID))
				if err := await(ctx, c, out.Volume); err != nil {
					return err
				}
				e.Printf("==> Volume %q is ready\n", shown)
				return nil
			}
		},
	}
}

func warn(e *term.Env, warnings string) {
	if warnings != "" {
		e.Printf("Volume Warnings:\n%s\n", warnings)
	}
}

// await waits until a volume is ready. One that becomes unavailable is an error.
func await(ctx context.Context, c *api.Client, v *api.HostVolume) error {
	q := &api.QueryOptions{Namespace: v.Namespace}
	for {
		now, meta, err := c.HostVolumes().Get(v.ID, q.WithContext(ctx))
		if err != nil {
			return fmt.Errorf("Error reading volume: %w", err)
		}
		switch now.State {
		case "ready":
			return nil
		case "unavailable":
			return fmt.Errorf("Volume %q is unavailable: its node is down, or does not have it any more", v.ID)
		}
		q.WaitIndex = meta.LastIndex
	}
}

func registerCommand() term.Command {
	return term.Command{
		Name: "volume register", Args: "<file or ->", MinArgs: 1, MaxArgs: 1,
		Short: "Make an existing path of a node a host volume",
		Long: "Reads a specification in HCL or JSON from a file, or from standard input with -. It must name the " +
			"node (node_id) and the path (host_path).",
		Setup: func(f *term.Flags) term.Run {
			id := f.String("id", "", "The `ID` of a volume to update. Overrides the specification.")
			override := f.Bool("policy-override", false, "Override soft mandatory Sentinel policies.")
			return func(ctx context.Context, e *term.Env) error {
				v, err := read(e, *id)
				if err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				out, _, err := c.HostVolumes().Register(&api.HostVolumeRegisterRequest{Volume: v, PolicyOverride: *override}, writing(ctx, v))
				if err != nil {
					return fmt.Errorf("Error registering volume: %w", err)
				}
				warn(e, out.Warnings)
				e.Printf("Registered host volume %s with ID %s\n", out.Volume.Name, out.Volume.ID)
				return nil
			}
		},
	}
}

// find returns the volume whose ID or name is the prefix, or the only one with it. Several are an error that lists them.
func find(ctx context.Context, e *term.Env, c *api.Client, prefix string) (*api.HostVolumeStub, error) {
	list, _, err := c.HostVolumes().List(&api.HostVolumeListRequest{},
		(&api.QueryOptions{Namespace: e.Namespace(), Prefix: prefix}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error querying volumes: %w", err)
	}
	for _, v := range list {
		if v.ID == prefix {
			return v, nil
		}
	}
	switch len(list) {
	case 0:
		return nil, fmt.Errorf("No volumes with prefix or ID %q found", prefix)
	case 1:
		return list[0], nil
	}
	return nil, fmt.Errorf("Prefix matched multiple volumes\n\n%s", table(list, term.Full))
}

func deleteCommand() term.Command {
	return term.Command{
		Name: "volume delete", Args: "<volume>", MinArgs: 1, MaxArgs: 1,
		Short: "Delete a host volume and its data",
		Long:  "Deletes a volume that no allocation uses, by a prefix of its ID or name. The plugin deletes the data. Needs -type host.",
		Setup: func(f *term.Flags) term.Run {
			kind := f.String("type", "csi", "The `type` of the volume: host. The default is refused.")
			force := f.Bool("force", false, "Delete the volume although its node is not available. The data stays there.")
			f.Refuse("secret", "CSI volumes")
			return func(ctx context.Context, e *term.Env) error {
				if err := hostOnly(*kind); err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				v, err := find(ctx, e, c, e.Arg(0))
				if err != nil {
					return err
				}
				req := &api.HostVolumeDeleteRequest{ID: v.ID, Force: *force}
				if _, _, err := c.HostVolumes().Delete(req, (&api.WriteOptions{Namespace: v.Namespace}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error deleting volume: %w", err)
				}
				e.Printf("Successfully deleted volume %q!\n", v.ID)
				return nil
			}
		},
	}
}

// hostOnly refuses the types of volumes that this version does not have.
func hostOnly(kind string) error {
	switch kind {
	case "host":
		return nil
	case "csi":
		return fmt.Errorf("CSI volumes: not part of this version. Use -type host for a host volume")
	}
	return fmt.Errorf("Invalid value for -type: %q; expected host", kind)
}

func initCommand() term.Command {
	return term.Command{
		Name: "volume init", Args: "[filename]", MaxArgs: 1,
		Short: "Write an example volume specification",
		Long:  "Writes an example of a host volume to volume.host.hcl, volume.host.json or the named file.",
		Setup: func(f *term.Flags) term.Run {
			asJSON := f.Bool("json", false, "Write JSON.")
			kind := f.String("type", "host", "The `type` of the volume: host.")
			return func(_ context.Context, e *term.Env) error {
				if err := hostOnly(*kind); err != nil {
					return err
				}
				name, text := "volume.host.hcl", exampleHCL
				if *asJSON {
					name, text = "volume.host.json", exampleJSON
				}
				if e.Arg(0) != "" {
					name = e.Arg(0)
				}
				if err := term.WriteNew(name, text, 0o644); err != nil {
					return err
				}
				e.Printf("Example volume specification written to %s\n", name)
				return nil
			}
		},
	}
}

// capacity formats a number of bytes; "" if it is 0.
func capacity(n int64) string {
	if n <= 0 {
		return ""
	}
	return term.Bytes(uint64(n))
}

// modes formats the value of a mode for a table.
func modes(list []*api.HostVolumeCapability) string {
	rows := []string{"Access Mode|Attachment Mode"}
	for _, c := range list {
		rows = append(rows, string(c.AccessMode)+"|"+string(c.AttachmentMode))
	}
	return term.Table(rows)
}
