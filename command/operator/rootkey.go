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

// rootKeyCommands look after the keys that sign identities and encrypt variables.
func rootKeyCommands() []term.Command {
	return []term.Command{rootKeysCommand(), rotateCommand(), removeKeyCommand()}
}

func rootKeysCommand() term.Command {
	return term.Command{
		Name: "operator root keyring list", Short: "List the root keys that sign and encrypt",
		Long: "Shows how many variables each key encrypts and, with key management services, who wrapped it and whether the leader can open it.",
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

// rootKeyTable shows keys; who wrapped them only when that is more than the built-in
// wrapper, and those that the leader could not open below it.
func rootKeyTable(keys []*api.RootKeyMeta, detail term.Detail) string {
	outside := slices.ContainsFunc(keys, func(k *api.RootKeyMeta) bool {
		return k.Closed != "" || slices.ContainsFunc(k.WrappedBy, func(id string) bool { return id != "aead" })
	})
	encrypts := slices.ContainsFunc(keys, func(k *api.RootKeyMeta) bool { return k.Variables > 0 })
	rows := []string{"Key|State|Create Time|Publish Time"}
	if encrypts {
		rows[0] += "|Variables"
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
		if outside {
			row = append(row, cmp.Or(strings.Join(k.WrappedBy, ","), "<none>"), k.Closed == "")
		}
		if k.Closed != "" {
			closed = append(closed, fmt.Sprintf("\nThe leader cannot open %s: %s", detail.ID(k.KeyID), k.Closed))
		}
		rows = append(rows, term.Row(row...))
	}
	return term.Table(rows) + strings.Join(closed, "")
}

func rotateCommand() term.Command {
	return term.Command{
		Name: "operator root keyring rotate", Short: "Make a new root key",
		Long: "With -now the new key signs and encrypts at once. With -prepublish it is shown to verifiers first and signs after that time, so that none of them meets a token of a key that it does not know. " +
			"The identities of nodes stay those of the old key until they are renewed; with -renew-nodes that is now, as 'node identity renew -all' does it.",
		Setup: func(f *term.Flags) term.Run {
			now := f.Bool("now", false, "The new key signs at once.")
			prepublish := f.Duration("prepublish", 0, "The new key is published now and signs after this `time`.")
			full := f.Bool("full", false, "With -now: encrypt all that older keys encrypted anew.")
			renewNodes := f.Bool("renew-nodes", false, "With -now: have every node ask for an identity that the new key signs.")
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
					return fmt.Errorf("The key is rotated, no node was asked: error querying nodes: %w", err)
				}
				e.Println()
				return over.Run(ctx, e, c, nodes)
			}
		},
	}
}

// renewable says whether nodes can be renewed as the flags say.
func renewable(now, nodes bool, over *renewal.Flags) error {
	switch {
	case nodes && !now:
		return errors.New("-renew-nodes goes with -now: a key that does not sign yet renews nothing")
	case over.Given() && !nodes:
		return errors.New("-over goes with -renew-nodes")
	}
	_, err := over.Over(0)
	return err
}

// rotation is what the flags of a rotation mean.
func rotation(now, full bool, prepublish time.Duration) (*api.KeyringRotateOptions, error) {
	switch {
	case prepublish < 0:
		return nil, fmt.Errorf("-prepublish %v: a time to come is expected", prepublish)
	case now == (prepublish > 0):
		return nil, errors.New("Either -now or -prepublish must be set")
	case full && !now:
		return nil, errors.New("-full goes with -now: a key that does not sign yet encrypts nothing")
	case now:
		return &api.KeyringRotateOptions{Full: full}, nil
	}
	return &api.KeyringRotateOptions{PublishTime: time.Now().Add(prepublish).UnixNano()}, nil
}

func removeKeyCommand() term.Command {
	return term.Command{
		Name: "operator root keyring remove", Args: "<key ID>", MinArgs: 1, MaxArgs: 1,
		Short: "Forget a root key that nothing needs any more",
		Long:  "The active key cannot be removed. One that living allocations, nodes or variables need is removed by -force only: their tokens are refused then, and what it encrypted is lost.",
		Setup: func(f *term.Flags) term.Run {
			force := f.Bool("force", false, "Remove the key although it is in use.")
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

// rootKeyID finds the one key whose ID begins with prefix.
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
		return "", fmt.Errorf("No root key has an ID that begins with %q", prefix)
	case 1:
		return found[0], nil
	}
	return "", fmt.Errorf("The ID %q fits several root keys: %s", prefix, strings.Join(found, ", "))
}
