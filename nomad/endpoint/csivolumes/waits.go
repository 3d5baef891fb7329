package csivolumes

import (
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/csi"
	"github.com/open-nomad/open-nomad/nomad/state"
)

// releases describes the claims of a volume that are being released: what each waits for, and the command that ends it.
func releases(snap *state.Snapshot, v *csi.Volume) []*csi.Release {
	var out []*csi.Release
	for _, c := range snap.EndedCSIClaims(v) {
		r := &csi.Release{AllocID: c.AllocationID, NodeID: nodeOf(snap, c), State: c.State.String()}
		if v.PastClaims[c.AllocationID] != nil && c.Since > 0 {
			r.Since = time.Unix(0, c.Since)
		} else if a := snap.Alloc(nil, c.AllocationID); a != nil && a.ModifyTime > 0 {
			r.Since = time.Unix(0, a.ModifyTime)
		}
		why, end := wait(snap, v, c)
		if r.Waits, r.Command = why, end; c.Waits != "" {
			r.Waits = c.Waits
		}
		out = append(out, r)
	}
	return out
}

// wait returns what the next step of a claim waits for, and the command that ends it or shows more.
func wait(snap *state.Snapshot, v *csi.Volume, c *csi.Claim) (why, end string) {
	p := snap.CSIPlugin(nil, v.PluginID)
	again := command("volume detach", v.Namespace, v.ID, nodeOf(snap, c))
	plugin := command("plugin status", "", v.PluginID)
	if p == nil {
		return fmt.Sprintf("plugin %q does not exist: run its job again, or remove the volume", v.PluginID),
			command("volume deregister -force", v.Namespace, v.ID)
	}
	if c.State != csi.ClaimUnpublishing {
		if p.ControllerRequired && p.ControllersHealthy == 0 {
			return fmt.Sprintf("no controller of plugin %q is healthy", v.PluginID), plugin
		}
		return "the controller is about to detach the volume from the node", again
	}
	n := snap.Node(nil, nodeOf(snap, c))
	switch {
	case n == nil, n.Status == nomad.NodeStatusDown:
		return "the node is lost: the volume is about to be released without it", again
	case n.Status != nomad.NodeStatusReady:
		return fmt.Sprintf("the node is %s: it must connect again, or be down", n.Status), command("node status", "", n.ID)
	case n.CSINodePlugins[v.PluginID] == nil || !n.CSINodePlugins[v.PluginID].Healthy:
		return fmt.Sprintf("plugin %q is not healthy on the node", v.PluginID), plugin
	}
	return "the node is about to unmount the volume", again
}

// command returns a command of the CLI for an object in a namespace, "" for an object without one.
func command(words, namespace string, args ...string) string {
	out := "nomad " + words
	if namespace != "" && namespace != nomad.DefaultNamespace {
		out += " -namespace=" + quoted(namespace)
	}
	for _, arg := range args {
		out += " " + quoted(arg)
	}
	return out
}

// quoted returns an argument as a POSIX shell reads it. IDs of volumes come from their creators.
func quoted(arg string) string {
	plain := arg != "" && !strings.ContainsFunc(arg, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.,:@%+=/", r)
	})
	if plain {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
