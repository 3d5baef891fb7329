// Package volume holds the commands for volumes: create, register, status, delete, deregister, detach, init, those of
// snapshots, and those of claims of dynamic host volumes. They call an agent through package api and keep no state.
//
// A dynamic host volume is a directory of one node, a CSI volume one of a storage system that a plugin attaches. The type
// in the specification, or the flag -type, selects one of them.
package volume

import (
	"context"
	"fmt"
	"strings"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/spec"
	"github.com/open-nomad/open-nomad/command/term"
)

// Commands lists the commands of this package.
func Commands() []term.Command {
	return []term.Command{createCommand(), registerCommand(), statusCommand(), deleteCommand(), deregisterCommand(), detachCommand(),
		initCommand(), claimListCommand(), claimDeleteCommand(), snapshotCreateCommand(), snapshotDeleteCommand(), snapshotListCommand()}
}

// specification is a volume of one of the types.
type specification struct {
	host *api.HostVolume
	csi  *api.CSIVolume
}

// read reads the specification that an argument names. id replaces its ID, unless it is empty.
func read(e *term.Env, id string) (*specification, error) {
	text, err := e.Input(e.Arg(0), maxSpec)
	if err != nil {
		return nil, fmt.Errorf("Error reading the volume specification: %w", err)
	}
	out, ignored, err := parse(text)
	if err != nil {
		return nil, err
	}
	if len(ignored) > 0 {
		e.Warnf("Warning: the volume specification has unknown keys, which are ignored: %s", strings.Join(ignored, ", "))
	}
	switch {
	case id == "":
	case out.csi != nil:
		out.csi.ID = id
	default:
		out.host.ID = id
	}
	return out, nil
}

// parse parses a specification in HCL or JSON. It returns the names of unknown keys that are ignored.
func parse(text []byte) (*specification, []string, error) {
	r, root, err := spec.Parse("volume", text)
	if err != nil {
		return nil, nil, fmt.Errorf("Error decoding the volume definition: %w", err)
	}
	kind := ""
	for key, value := range root {
		if strings.EqualFold(key, "type") {
			kind = fmt.Sprint(value)
		}
	}
	switch kind {
	case "csi":
		v, ignored, err := parseCSI(root)
		if err != nil {
			return nil, nil, fmt.Errorf("Error decoding the volume definition: %w", err)
		}
		return &specification{csi: v}, ignored, nil
	case "host":
		v, err := parseHost(r, root)
		return &specification{host: v}, nil, err
	}
	return nil, nil, fmt.Errorf("Error unknown volume type: %s: use type = \"csi\" for a volume of a CSI plugin, or type = \"host\"", kind)
}

// writing returns the options of a write about a volume: its namespace precedes that of the environment.
func writing(ctx context.Context, namespace string) *api.WriteOptions {
	return (&api.WriteOptions{Namespace: namespace}).WithContext(ctx)
}

func warn(e *term.Env, warnings string) {
	if warnings != "" {
		e.Printf("Volume Warnings:\n%s\n", warnings)
	}
}

func createCommand() term.Command {
	return term.Command{
		Name: "volume create", Args: "<file or ->", MinArgs: 1, MaxArgs: 1,
		Short: "Create a volume with a CSI plugin, or with a plugin of a node",
		Long: "Reads a specification in HCL or JSON from a file, or from standard input with - ('nomad volume init' writes an example). " +
			"A volume of type csi is made by the controller plugin in its storage system, and registered. One of type host is made " +
			"on a node; the command waits until it is ready. With the ID of a volume that exists, it updates that volume.",
		Setup: func(f *term.Flags) term.Run {
			detach := f.Bool("detach", false, "Do not wait until a host volume is ready.")
			id := f.String("id", "", "The `ID` of the volume. Overrides the specification.")
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
				if v.csi != nil {
					req := &api.CSIVolumeCreateRequest{Volumes: []*api.CSIVolume{v.csi}, PolicyOverride: *override}
					return createCSI(e, c, req, writing(ctx, v.csi.Namespace))
				}
				out, err := createHost(ctx, e, c, &api.HostVolumeCreateRequest{Volume: v.host, PolicyOverride: *override})
				if err != nil || *detach {
					return err
				}
				e.Printf("==> Waiting until volume %q is ready on node %q\n", detail.ID(out.ID), detail.ID(out.NodeID))
				if err := await(ctx, c, out); err != nil {
					return err
				}
				e.Printf("==> Volume %q is ready\n", detail.ID(out.ID))
				return nil
			}
		},
	}
}

func registerCommand() term.Command {
	return term.Command{
		Name: "volume register", Args: "<file or ->", MinArgs: 1, MaxArgs: 1,
		Short: "Register a volume that exists in a storage system, or a path of a node",
		Long: "Reads a specification in HCL or JSON from a file, or from standard input with -. One of type csi names the plugin " +
			"(plugin_id) and the volume of the storage system (external_id). One of type host names the node (node_id) and the " +
			"path (host_path).",
		Setup: func(f *term.Flags) term.Run {
			id := f.String("id", "", "The `ID` of the volume. Overrides the specification.")
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
				if v.csi != nil {
					req := &api.CSIVolumeRegisterRequest{Volumes: []*api.CSIVolume{v.csi}, PolicyOverride: *override}
					return registerCSI(e, c, req, writing(ctx, v.csi.Namespace))
				}
				return registerHost(ctx, e, c, &api.HostVolumeRegisterRequest{Volume: v.host, PolicyOverride: *override})
			}
		},
	}
}

func deleteCommand() term.Command {
	return term.Command{
		Name: "volume delete", Args: "<volume>", MinArgs: 1, MaxArgs: 1,
		Short: "Delete a volume and its data",
		Long: "Deletes a volume that no allocation uses, by a prefix of its ID. The plugin deletes the data. Host volumes " +
			"need -type host, and can be given by a prefix of their name.",
		Setup: func(f *term.Flags) term.Run {
			kind := f.String("type", "csi", "The `type` of the volume: csi or host.")
			force := f.Bool("force", false, "Delete a host volume although its node is not available. The data stays there.")
			pairs := f.Strings("secret", "A `key=value` for the CSI plugin, besides the secrets of the volume. May be repeated.")
			return func(ctx context.Context, e *term.Env) error {
				secrets, err := pairsOf("secret", *pairs)
				if err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				switch *kind {
				case "csi":
					return deleteCSI(ctx, e, c, secrets)
				case "host":
					return deleteHost(ctx, e, c, *force)
				}
				return unknownType(*kind)
			}
		},
	}
}

// unknownType returns the error for a value of the flag -type.
func unknownType(kind string) error {
	return fmt.Errorf("Invalid value for -type: %q; expected csi or host", kind)
}

// pairsOf parses the values of a flag that may be repeated. Errors have no values: they may be secret.
func pairsOf(name string, pairs []string) (map[string]string, error) {
	out := map[string]string{}
	for i, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("Invalid value %d for -%s: expected key=value", i+1, name)
		}
		out[key] = value
	}
	return out, nil
}

func initCommand() term.Command {
	return term.Command{
		Name: "volume init", Args: "[filename]", MaxArgs: 1,
		Short: "Write an example volume specification",
		Long:  "Writes an example to volume.csi.hcl, to volume.host.hcl with -type host, or to the named file.",
		Setup: func(f *term.Flags) term.Run {
			asJSON := f.Bool("json", false, "Write JSON.")
			kind := f.String("type", "csi", "The `type` of the volume: csi or host.")
			return func(_ context.Context, e *term.Env) error {
				texts := map[string][2]string{"csi": {csiHCL, csiJSON}, "host": {hostHCL, hostJSON}}[*kind]
				if texts[0] == "" {
					return unknownType(*kind)
				}
				name, text := "volume."+*kind+".hcl", texts[0]
				if *asJSON {
					name, text = "volume."+*kind+".json", texts[1]
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
