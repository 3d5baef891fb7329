package volume

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/term"
)

func snapshotCreateCommand() term.Command {
	return term.Command{
		Name: "volume snapshot create", Args: "<volume> [name]", MinArgs: 1, MaxArgs: 2,
		Short: "Make a snapshot of a CSI volume",
		Long: "The first argument is a prefix of the ID of the volume. Without a name, the snapshot gets one of the volume's ID and " +
			"the time. A specification with its ID as snapshot_id makes a new volume of it.",
		Setup: func(f *term.Flags) term.Run {
			parameters := f.Strings("parameter", "A `key=value` for the plugin. May be repeated.")
			pairs := f.Strings("secret", "A `key=value` for the plugin, besides the secrets of the volume. May be repeated.")
			detail := f.Detail("Print complete IDs and times.")
			return func(ctx context.Context, e *term.Env) error {
				snap := &api.CSISnapshot{Name: e.Arg(1)}
				var err error
				if snap.Secrets, err = pairsOf("secret", *pairs); err != nil {
					return err
				}
				if snap.Parameters, err = pairsOf("parameter", *parameters); err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				v, err := findCSI(ctx, e, c, e.Arg(0))
				if err != nil {
					return err
				}
				snap.SourceVolumeID, snap.PluginID = v.ID, v.PluginID
				if snap.Name == "" {
					snap.Name = v.ID + "-" + time.Now().UTC().Format("20060102T150405Z")
				}
				out, _, err := c.CSIVolumes().CreateSnapshot(snap, writing(ctx, v.Namespace))
				if err != nil {
					return fmt.Errorf("Error creating snapshot: %w", err)
				}
				e.Println(snapshotTable(out.Snapshots, *detail))
				return nil
			}
		},
	}
}

func snapshotDeleteCommand() term.Command {
	return term.Command{
		Name: "volume snapshot delete", Args: "<plugin> <snapshot>", MinArgs: 2, MaxArgs: 2,
		Short: "Delete a snapshot of a CSI volume",
		Long:  "The arguments are the complete ID of the plugin and that of the snapshot in its storage system.",
		Setup: func(f *term.Flags) term.Run {
			pairs := f.Strings("secret", "A `key=value` for the plugin. May be repeated.")
			return func(ctx context.Context, e *term.Env) error {
				secrets, err := pairsOf("secret", *pairs)
				if err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				snap := &api.CSISnapshot{PluginID: e.Arg(0), ID: e.Arg(1), Secrets: secrets}
				if err := c.CSIVolumes().DeleteSnapshot(snap, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error deleting snapshot: %w", err)
				}
				e.Printf("Successfully deleted snapshot %q!\n", e.Arg(1))
				return nil
			}
		},
	}
}

// snapshotFlags are the flags of volume snapshot list.
type snapshotFlags struct {
	plugin, token string
	perPage       int
	secrets       *[]string
	detail        *term.Detail
}

func snapshotListCommand() term.Command {
	return term.Command{
		Name: "volume snapshot list", MaxArgs: 0,
		Short: "List the snapshots of the storage systems of CSI plugins",
		Setup: func(f *term.Flags) term.Run {
			var s snapshotFlags
			f.StringVar(&s.plugin, "plugin", "", "List only snapshots of the plugin with this `ID`, or prefix of an ID. Default: all plugins.")
			f.StringVar(&s.token, "page-token", "", "The `token` of the next page of a plugin.")
			f.IntVar(&s.perPage, "per-page", 30, "The maximum number of snapshots per page.")
			s.secrets = f.Strings("secret", "A `key=value` for the plugin. May be repeated. With several plugins, -plugin chooses one.")
			s.detail = f.Detail("Print complete IDs and times.")
			return s.run
		},
	}
}

func (s *snapshotFlags) run(ctx context.Context, e *term.Env) error {
	secrets, err := pairsOf("secret", *s.secrets)
	if err != nil {
		return err
	}
	c, err := e.Client()
	if err != nil {
		return err
	}
	plugins, err := s.plugins(ctx, c)
	if err != nil {
		return err
	}
	if len(plugins) > 1 && (s.token != "" || len(secrets) > 0) {
		return fmt.Errorf("-page-token and -secret are for one plugin, but there are %d: add -plugin", len(plugins))
	}
	var failed error
	rows, next := []*api.CSISnapshot{}, ""
	for _, p := range plugins {
		q := (&api.QueryOptions{Namespace: e.Namespace(), PerPage: int32(s.perPage), NextToken: s.token}).WithContext(ctx)
		out, _, err := c.CSIVolumes().ListSnapshotsOpts(&api.CSISnapshotListRequest{PluginID: p, Secrets: secrets, QueryOptions: *q})
		if err != nil {
			failed = fmt.Errorf("Error querying snapshots of plugin %q: %w", p, err)
			if len(plugins) > 1 {
				e.Warnf("%v", failed)
			}
			continue
		}
		rows = append(rows, out.Snapshots...)
		if out.NextToken != "" {
			next += fmt.Sprintf("\nResults have been paginated. To get the next page run:\n\n"+
				"nomad volume snapshot list -plugin %s -page-token %s\n", term.Cell(p), term.Cell(out.NextToken))
		}
	}
	switch {
	case len(rows) > 0:
		e.Println(snapshotTable(rows, *s.detail))
	case failed != nil:
		return failed
	default:
		e.Println("No snapshots")
	}
	e.Printf("%s", next)
	return nil
}

// plugins returns the IDs of the wanted plugins: all of them, or the only one that the prefix of the flag matches.
func (s *snapshotFlags) plugins(ctx context.Context, c *api.Client) ([]string, error) {
	list, _, err := c.CSIPlugins().List((&api.QueryOptions{Prefix: s.plugin}).WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("Error querying CSI plugins: %w", err)
	}
	var ids []string
	rows := []string{"ID|Provider"}
	for _, p := range list {
		if p.ID == s.plugin {
			return []string{p.ID}, nil
		}
		ids, rows = append(ids, p.ID), append(rows, term.Row(p.ID, p.Provider))
	}
	switch {
	case s.plugin != "" && len(ids) == 0:
		return nil, fmt.Errorf("No plugins(s) with prefix or ID %q found", s.plugin)
	case s.plugin != "" && len(ids) > 1:
		return nil, fmt.Errorf("Prefix matched multiple plugins\n\n%s", term.Table(rows))
	}
	return ids, nil
}

// The lengths of the IDs of volumes in the table of snapshots.
const (
	shortVolume = 12
	fullVolume  = 30
)

func snapshotTable(list []*api.CSISnapshot, detail term.Detail) string {
	limit := shortVolume
	if detail {
		limit = fullVolume
	}
	rows := []string{"Snapshot ID|Volume ID|Size|Create Time|Ready?"}
	for _, s := range list {
		rows = append(rows, term.Row(s.ID, cut(s.ExternalSourceVolumeID, limit), term.Bytes(uint64(max(s.SizeBytes, 0))),
			detail.Since(time.Unix(s.CreateTime, 0)), s.IsReady))
	}
	return term.Table(rows)
}

// cut shortens a text to some characters.
func cut(text string, limit int) string {
	if runes := []rune(strings.ToValidUTF8(text, "�")); len(runes) > limit {
		return string(runes[:limit])
	}
	return text
}
