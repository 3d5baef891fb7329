package volume

import (
	"context"
	"fmt"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

// createHost creates or updates a dynamic host volume.
func createHost(ctx context.Context, e *term.Env, c *api.Client, req *api.HostVolumeCreateRequest) (*api.HostVolume, error) {
	out, _, err := c.HostVolumes().Create(req, writing(ctx, req.Volume.Namespace))
	if err != nil {
		return nil, fmt.Errorf("Error creating volume: %w", err)
	}
	warn(e, out.Warnings)
	e.Printf("Created host volume %s with ID %s\n", out.Volume.Name, out.Volume.ID)
	return out.Volume, nil
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

// registerHost makes a path of a node a volume.
func registerHost(ctx context.Context, e *term.Env, c *api.Client, req *api.HostVolumeRegisterRequest) error {
	out, _, err := c.HostVolumes().Register(req, writing(ctx, req.Volume.Namespace))
	if err != nil {
		return fmt.Errorf("Error registering volume: %w", err)
	}
	warn(e, out.Warnings)
	e.Printf("Registered host volume %s with ID %s\n", out.Volume.Name, out.Volume.ID)
	return nil
}

// hostMatches returns the host volumes whose ID or name begins with the prefix, or the only one with this ID.
func hostMatches(ctx context.Context, e *term.Env, c *api.Client, prefix string) ([]*api.HostVolumeStub, error) {
	list, _, err := c.HostVolumes().List(&api.HostVolumeListRequest{},
		(&api.QueryOptions{Namespace: e.Namespace(), Prefix: prefix}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error querying volumes: %w", err)
	}
	for _, v := range list {
		if v.ID == prefix {
			return []*api.HostVolumeStub{v}, nil
		}
	}
	return list, nil
}

// deleteHost deletes the host volume of the argument.
func deleteHost(ctx context.Context, e *term.Env, c *api.Client, force bool) error {
	list, err := hostMatches(ctx, e, c, e.Arg(0))
	if err != nil {
		return err
	}
	if len(list) != 1 {
		return matched(e.Arg(0), list, nil)
	}
	v := list[0]
	if _, _, err := c.HostVolumes().Delete(&api.HostVolumeDeleteRequest{ID: v.ID, Force: force}, writing(ctx, v.Namespace)); err != nil {
		return fmt.Errorf("Error deleting volume: %w", err)
	}
	e.Printf("Successfully deleted volume %q!\n", v.ID)
	return nil
}

// matched returns the error of a prefix that matches none or several volumes.
func matched(prefix string, host []*api.HostVolumeStub, csi []*api.CSIVolumeListStub) error {
	if len(host)+len(csi) == 0 {
		return fmt.Errorf("No volumes with prefix or ID %q found", prefix)
	}
	text := "Prefix matched multiple volumes"
	if len(host) > 0 {
		text += "\n\n" + table(host, term.Full)
	}
	if len(csi) > 0 {
		text += "\n\n" + csiTable(csi)
	}
	return fmt.Errorf("%s", text)
}

// capacity formats a number of bytes; "" if it is 0.
func capacity(n int64) string {
	if n <= 0 {
		return ""
	}
	return term.Bytes(uint64(n))
}

// modes formats the capabilities of a host volume.
func modes(list []*api.HostVolumeCapability) string {
	rows := []string{"Access Mode|Attachment Mode"}
	for _, c := range list {
		rows = append(rows, string(c.AccessMode)+"|"+string(c.AttachmentMode))
	}
	return term.Table(rows)
}
