package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/api"
	"github.com/open-nomad/open-nomad/command/renewal"
	"github.com/open-nomad/open-nomad/command/term"
)

// rootKeyCommands manage the keys that sign identities and encrypt variables.
func rootKeyCommands() []term.Command {
	return []term.Command{rootKeysCommand(), rotateCommand(), removeKeyCommand()}
}

func rootKeysCommand() term.Command {
	return term.Command{
		Name: "operator root keyring list", Short: "List the root keys that sign and encrypt",
		Long: "The list has the number of variables that each key encrypts. With a key management service it also " +
			"shows which provider wrapped the key, and whether the leader can unwrap it.",
		Setup: func(f *term.Flags) term.Run {
			detail := f.Detail("Show full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				keys, _, err := c.Keyring().List((&api.QueryOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error listing root keys: %w", err)
				}
				e.Println(rootKeyTable(keys, *detail))
				return nil
			}
		},
	}
}

// rootKeyTable prints the keys. The column of wrappers is omitted if all keys have the
// built-in one. Keys that the leader cannot unwrap are listed below the table.
func rootKeyTable(keys []*api.RootKeyMeta, detail term.Detail) string {
	outside := slices.ContainsFunc(keys, func(k *api.RootKeyMeta) bool {
		return k.Closed != "" || slices.ContainsFunc(k.WrappedBy, func(id string) bool { return id != "aead" })
	})
	encrypts := slices.ContainsFunc(keys, func(k *api.RootKeyMeta) bool { return k.Variables > 0 })
	ofVolumes := slices.ContainsFunc(keys, func(k *api.RootKeyMeta) bool { return k.Volumes > 0 })
	rows := []string{"Key|State|Create Time|Publish Time"}
	if encrypts {
		rows[0] += "|Variables"
	}
	if ofVolumes {
		rows[0] += "|CSI Volumes"
	}
	if outside {
		rows[0] += "|Wrapped By|Open"
	}
	var closed []string
	for _, k := range keys {
		publish := "<none>"
		if k.PublishTime > 0 {
			publish = term.UnixNano(k.PublishTime)
		}
		row := []any{detail.ID(k.KeyID), k.State, term.UnixNano(k.CreateTime), publish}
		if encrypts {
			row = append(row, k.Variables)
		}
		if ofVolumes {
			row = append(row, k.Volumes)
		}
		if outside {
			row = append(row, cmp.Or(strings.Join(k.WrappedBy, ","), "<none>"), k.Closed == "")
		}
		if k.Closed != "" {
			closed = append(closed, fmt.Sprintf("\nThe leader cannot unwrap %s: %s", detail.ID(k.KeyID), k.Closed))
		}
		rows = append(rows, term.Row(row...))
	}
	return term.Table(rows) + strings.Join(closed, "")
}

func rotateCommand() term.Command {
	return term.Command{
		Name: "operator root keyring rotate", Short: "Rotate the root key",
		Long: "With -now the new key is active at once. With -prepublish it is first published in the JWKS and " +
			"becomes active after that time, so verifiers know it before it signs. " +
			"Nodes keep identities signed by the old key until they renew them. With -renew-nodes they renew at " +
			"once, as with 'nomad node identity renew -all'.",
		Setup: func(f *term.Flags) term.Run {
			now := f.Bool("now", false, "Activate the new key at once.")
			prepublish := f.Duration("prepublish", 0, "Publish the new key now and activate it after this `duration`.")
			full := f.Bool("full", false, "With -now: encrypt all variables again with the new key.")
			renewNodes := f.Bool("renew-nodes", false, "With -now: make every node renew its identity.")
			var over renewal.Flags
			over.Declare(f)
			detail := f.Detail("Show full IDs.")
			return func(ctx context.Context, e *term.Env) error {
				opts, err := rotation(*now, *full, *prepublish)
				if err == nil {
					err = renewable(*now, *renewNodes, &over)
				}
				if err != nil {
					return err
				}
				c, err := e.Client()
				if err != nil {
					return err
				}
				key, _, err := c.Keyring().Rotate(opts, (&api.WriteOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("Error rotating root key: %w", err)
				}
				e.Println(rootKeyTable([]*api.RootKeyMeta{key}, *detail))
				if !*renewNodes {
					return nil
				}
				nodes, _, err := c.Nodes().List((&api.QueryOptions{}).WithContext(ctx))
				if err != nil {
					return fmt.Errorf("The key is rotated, but no node renewed its identity: error querying nodes: %w", err)
				}
				e.Println()
				return over.Run(ctx, e, c, nodes)
			}
		},
	}
}

// renewable checks the flags for the renewal of nodes.
func renewable(now, nodes bool, over *renewal.Flags) error {
	switch {
	case nodes && !now:
		return errors.New("-renew-nodes requires -now: a prepublished key does not sign yet")
	case over.IsSet() && !nodes:
		return errors.New("-over requires -renew-nodes")
	}
	_, err := over.Over(0)
	return err
}

// rotation returns the options for the flags.
func rotation(now, full bool, prepublish time.Duration) (*api.KeyringRotateOptions, error) {
	switch {
	case prepublish < 0:
		return nil, fmt.Errorf("-prepublish %v: expected a positive duration", prepublish)
	case now == (prepublish > 0):
		return nil, errors.New("Either -now or -prepublish must be set")
	case full && !now:
		return nil, errors.New("-full requires -now: a prepublished key does not encrypt yet")
	case now:
		return &api.KeyringRotateOptions{Full: full}, nil
	}
	return &api.KeyringRotateOptions{PublishTime: time.Now().Add(prepublish).UnixNano()}, nil
}

func removeKeyCommand() term.Command {
	return term.Command{
		Name: "operator root keyring remove", Args: "<key ID>", MinArgs: 1, MaxArgs: 1,
		Short: "Remove an unused root key",
		Long: "The active key cannot be removed. A key that allocations, nodes or variables still use is only " +
			"removed with -force. Its tokens then become invalid, and the data that it encrypted is lost.",
		Setup: func(f *term.Flags) term.Run {
			force := f.Bool("force", false, "Remove the key even if it is in use.")
			return func(ctx context.Context, e *term.Env) error {
				c, err := e.Client()
				if err != nil {
					return err
				}
				id, err := rootKeyID(ctx, c, e.Arg(0))
				if err != nil {
					return err
				}
				opts := &api.KeyringDeleteOptions{KeyID: id, Force: *force}
				if _, err := c.Keyring().Delete(opts, (&api.WriteOptions{}).WithContext(ctx)); err != nil {
					return fmt.Errorf("Error removing root key: %w", err)
				}
				e.Printf("Root key %s removed\n", id)
				return nil
			}
		},
	}
}

// rootKeyID returns the key ID with a unique prefix.
func rootKeyID(ctx context.Context, c *api.Client, prefix string) (string, error) {
	keys, _, err := c.Keyring().List((&api.QueryOptions{}).WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("Error listing root keys: %w", err)
	}
	var found []string
	for _, k := range keys {
		if strings.HasPrefix(k.KeyID, prefix) {
			found = append(found, k.KeyID)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("No root key with prefix %q found", prefix)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("Prefix %q matched multiple root keys: %s", prefix, strings.Join(found, ", "))
}
