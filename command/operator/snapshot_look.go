package operator

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/hashicorp/go-bexpr"
	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/open-nomad/open-nomad/command/backup"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/nomad/snapshot"
)

func snapshotInspectCommand() term.Command {
	return term.Command{
		Name: "operator snapshot inspect", Args: "<file>", MinArgs: 1, MaxArgs: 1, Short: "Show the contents of a snapshot file by type",
		Setup: func(f *term.Flags) term.Run {
			asJSON := f.Bool("json", false, "Print as JSON.")
			return func(_ context.Context, e *term.Env) error {
				a, err := snapshot.OpenFile(e.Arg(0))
				if err != nil {
					return fmt.Errorf("Error inspecting snapshot: %w", err)
				}
				defer a.Close()
				return inspect(e, a, *asJSON)
			}
		},
	}
}

// kind counts the records of one type.
type kind struct {
	Type  uint8
	Name  string
	Count int
	Size  uint64
}

func inspect(e *term.Env, a *snapshot.Archive, asJSON bool) error {
	byType := map[byte]*kind{}
	err := a.Sizes(func(r snapshot.Record) error {
		k := byType[r.Type]
		if k == nil {
			k = &kind{Type: r.Type, Name: r.Name}
			byType[r.Type] = k
		}
		k.Count++
		k.Size += uint64(r.Size)
		return nil
	})
	if err != nil {
		return fmt.Errorf("Error inspecting snapshot: %w", err)
	}
	kinds := []*kind{}
	for _, k := range byType {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b *kind) int { return cmp.Or(-cmp.Compare(a.Size, b.Size), cmp.Compare(a.Type, b.Type)) })
	if asJSON {
		return e.JSON(map[string]any{"Meta": a.Meta, "Types": kinds})
	}
	e.Println(term.Table([]string{term.Row("ID", a.Meta.ID), term.Row("Size", a.Meta.Size), term.Row("Index", a.Meta.Index),
		term.Row("Term", a.Meta.Term), term.Row("Version", int(a.Meta.Version))}))
	e.Println()
	rows := []string{"Type|Count|Size"}
	for _, k := range kinds {
		rows = append(rows, term.Row(k.Name, k.Count, term.Bytes(k.Size)))
	}
	e.Println(term.Table(rows))
	return nil
}

// stateHandle encodes values of package nomad by their wire names.
var stateHandle = func() *codec.JsonHandle {
	h := &codec.JsonHandle{HTMLCharsAsIs: true, Indent: 2}
	h.Canonical = true
	h.TypeInfos = codec.NewTypeInfos([]string{"codec"})
	return h
}()

func snapshotStateCommand() term.Command {
	return term.Command{
		Name: "operator snapshot state", Args: "<file>", MinArgs: 1, MaxArgs: 1, Short: "Print the state in a snapshot file as JSON",
		Long: `The output is an object with a list for each type of record. Keys, tokens and
secret IDs are omitted.`,
		Setup: func(f *term.Flags) term.Run {
			filters := f.Strings("filter", "Print only records that match this `expression`. May be repeated:\na record must match all of them.")
			return func(_ context.Context, e *term.Env) error {
				keep, err := matchAll(*filters)
				if err != nil {
					return err
				}
				a, err := snapshot.OpenFile(e.Arg(0))
				if err != nil {
					return fmt.Errorf("Error reading snapshot: %w", err)
				}
				defer a.Close()
				if err := printState(e, a.Records, keep); err != nil {
					return fmt.Errorf("Error reading snapshot: %w", err)
				}
				return nil
			}
		},
	}
}

// matchAll combines filter expressions. A record without a field of an expression does
// not match.
func matchAll(filters []string) (func(any) bool, error) {
	var all []*bexpr.Evaluator
	for _, text := range filters {
		ev, err := bexpr.CreateEvaluator(text)
		if err != nil {
			return nil, fmt.Errorf("Error parsing filter %q: %w", text, err)
		}
		all = append(all, ev)
	}
	return func(v any) bool {
		return !slices.ContainsFunc(all, func(ev *bexpr.Evaluator) bool {
			ok, err := ev.Evaluate(v)
			return err != nil || !ok
		})
	}, nil
}

// printState prints the records by type, in the order of the first record of each type.
func printState(e *term.Env, records func(func(snapshot.Record) error) error, keep func(any) bool) error {
	lists := map[string]*bytes.Buffer{}
	var order []string
	err := records(func(r snapshot.Record) error {
		if !keep(r.Value) {
			return nil
		}
		var text []byte
		if err := codec.NewEncoderBytes(&text, stateHandle).Encode(r.Value); err != nil {
			return fmt.Errorf("show a record of type %d (%s): %w", r.Type, r.Name, err)
		}
		list := lists[r.Name]
		if list == nil {
			list = &bytes.Buffer{}
			lists[r.Name], order = list, append(order, r.Name)
		} else {
			list.WriteByte(',')
		}
		list.WriteString("\n    " + strings.ReplaceAll(string(text), "\n", "\n    "))
		return nil
	})
	if err != nil {
		return err
	}
	e.Printf("{")
	for i, name := range order {
		if i > 0 {
			e.Printf(",")
		}
		e.Printf("\n  %q: [%s\n  ]", name, lists[name])
	}
	e.Println("\n}")
	return nil
}

func snapshotRedactCommand() term.Command {
	return term.Command{
		Name: "operator snapshot redact", Args: "<file>", MinArgs: 1, MaxArgs: 1, Local: true,
		Short: "Remove keys, tokens and secret IDs from a snapshot file",
		Long: `The file is replaced by one that can be inspected and shared, but not restored. The key
encryption keys, signed identities, and the secret IDs of nodes and ACL tokens are removed.
Secrets in the text of jobs are not.`,
		Setup: func(*term.Flags) term.Run {
			return func(_ context.Context, e *term.Env) error {
				name := e.Arg(0)
				a, err := snapshot.OpenFile(name)
				if err != nil {
					return fmt.Errorf("Error redacting snapshot: %w", err)
				}
				defer a.Close()
				if err := backup.Replace(name, func(f *os.File) error { return a.Redact(f, "") }); err != nil {
					return fmt.Errorf("Error redacting snapshot: %w", err)
				}
				e.Println("Redacted " + name)
				return nil
			}
		},
	}
}
