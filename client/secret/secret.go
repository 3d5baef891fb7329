// Package secret fetches the values of the secret blocks of tasks:
//
//	nomad   a Nomad variable, with the task's identity
//	vault   a secret of the KV engine, version 1 or 2, with the task's token of Vault
//	others  a plugin: an executable in the directory secrets of the plugin directory
//
// A value is the exact text of the provider. The package stores none, and no error contains one, nor the output of a plugin or
// an answer of Vault. A variable that does not exist is waited for. Other failed reads are repeated like those of templates, as
// nomad_retry and vault_retry of the client set. An error of a plugin is final, as in Nomad.
//
// A plugin runs as a user of its own, confined by drivers/process.Confiner. Its time and its output are limited. It is killed
// with all its descendants. Its standard error is counted and not kept, since it can contain secrets.
//
// The goroutines of a fetch end with it.
package secret

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/open-nomad/open-nomad/internal/backoff"
	"github.com/open-nomad/open-nomad/internal/render"
	"github.com/open-nomad/open-nomad/internal/vault"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/taskenv"
)

// Limits of the values of a task.
const (
	maxKeys   = 1000    // of a block
	maxValues = 4 << 20 // bytes of all keys and values of a task
	quiet     = 3 * time.Second
	minPause  = 100 * time.Millisecond // between failed reads, whatever the configuration says
)

// RPC calls the servers.
type RPC interface {
	Call(ctx context.Context, method string, req, resp any) error
}

// Node holds what the tasks of the node share.
type Node struct {
	RPC     RPC
	Region  string
	Vault   *vault.Cluster // nil: the node has no Vault
	Plugins *Plugins
	// NomadRetry and VaultRetry are how failed reads are repeated.
	NomadRetry, VaultRetry render.Retry
}

// Task is a task with secret blocks.
type Task struct {
	Namespace, JobID string
	Secrets          []*nomad.Secret
	Identity         func() string // the current identity of the task for Nomad
	Token            Token         // of Vault
	Env              *taskenv.Env
	// Waits is called when the fetch has waited for a while, with the reason: the text of an error, or what a plugin waits for.
	// It is called again for another reason.
	Waits func(reason string)
	Log   *slog.Logger
}

// final is an error that no retry heals.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// missing is the error for what does not exist yet.
type missing struct{ what string }

func (m *missing) Error() string { return "Missing: " + m.what }

// Spent is the error of a read whose attempts are used up.
type Spent struct {
	Attempts int // that failed in a row
	Err      error
}

func (s *Spent) Error() string { return fmt.Sprintf("%v (failed attempts: %d)", s.Err, s.Attempts) }

// Unwrap returns Err.
func (s *Spent) Unwrap() error { return s.Err }

// Fetch returns the values of all secret blocks, by NAME.KEY. The built-in providers come first, then the plugins, each in the
// order of the job. It waits for what does not exist, until ctx ends. A *Spent is the error after too many failed reads.
func (n *Node) Fetch(ctx context.Context, t *Task) (map[string]string, error) {
	values, size := map[string]string{}, 0
	for _, s := range inOrder(t.Secrets) {
		found, err := n.await(ctx, t, s, values)
		if err != nil {
			return nil, err
		}
		if len(found) > maxKeys {
			return nil, fmt.Errorf("secret %q has %d keys: the limit is %d", s.Name, len(found), maxKeys)
		}
		for key, value := range found {
			size += len(key) + len(value)
			values[s.Name+"."+key] = value
		}
		if size > maxValues {
			return nil, fmt.Errorf("the secrets of the task have more than %d MiB", maxValues>>20)
		}
	}
	return values, nil
}

// inOrder returns the blocks with the built-in providers before the others.
func inOrder(list []*nomad.Secret) []*nomad.Secret {
	out := slices.DeleteFunc(slices.Clone(list), func(s *nomad.Secret) bool { return s == nil })
	slices.SortStableFunc(out, func(a, b *nomad.Secret) int {
		switch {
		case a.Plugin() == b.Plugin():
			return 0
		case b.Plugin():
			return -1
		}
		return 1
	})
	return out
}

// await fetches one block, and repeats that until it succeeds, its error is final, or ctx ends.
func (n *Node) await(ctx context.Context, t *Task, s *nomad.Secret, before map[string]string) (map[string]string, error) {
	env := t.Env.WithSecrets(before)
	resolved, err := resolve(s, env)
	if err != nil {
		return nil, err
	}
	absences, failures := backoff.Backoff{Min: 250 * time.Millisecond, Max: 15 * time.Second}, 0
	w := &waiting{report: t.Waits}
	defer w.end()
	reporting := *t
	reporting.Waits = w.reason
	for {
		found, err := n.fetch(ctx, &reporting, resolved, env)
		f, m := (final{}), (*missing)(nil)
		switch {
		case err == nil:
			return found, nil
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &f):
			return nil, f.error
		}
		pause := time.Duration(0)
		if s.Provider == nomad.SecretProviderNomad && errors.As(err, &m) { // an answer, as for a template
			pause, failures = absences.Next(), 0
		} else {
			retry := n.retry(s)
			if failures++; retry.Spent(failures) {
				return nil, &Spent{failures, err}
			}
			pause = max(retry.Delay(failures), minPause)
			absences.Reset()
		}
		w.reason(err.Error())
		if err := backoff.Sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

// retry returns how failed reads of a block are repeated.
func (n *Node) retry(s *nomad.Secret) render.Retry {
	if s.Provider == nomad.SecretProviderVault {
		return n.VaultRetry
	}
	return n.NomadRetry
}

func (n *Node) fetch(ctx context.Context, t *Task, s *nomad.Secret, env *taskenv.Env) (map[string]string, error) {
	switch s.Provider {
	case nomad.SecretProviderNomad:
		return n.variable(ctx, t, s)
	case nomad.SecretProviderVault:
		return n.vault(ctx, t, s)
	}
	if n.Plugins == nil {
		return nil, final{fmt.Errorf("secret %q: this node has no plugins", s.Name)}
	}
	found, err := n.Plugins.fetch(ctx, t, s, env)
	if err != nil {
		return nil, final{err}
	}
	return found, nil
}

// resolve returns a copy of a block with the references of its path and its namespace replaced. Events, errors and the list of
// processes show both, so that they must not contain secrets or tokens.
func resolve(s *nomad.Secret, env *taskenv.Env) (*nomad.Secret, error) {
	out, public := *s, env.WithSecrets(nil)
	out.Path = public.Expand(s.Path)
	if ns := s.ConfigText(nomad.SecretConfigNamespace); ns != "" {
		out.Config = map[string]any{nomad.SecretConfigNamespace: public.Expand(ns)}
	}
	for field, text := range map[string]string{"path": out.Path, "namespace": out.ConfigText(nomad.SecretConfigNamespace)} {
		switch {
		case strings.Contains(text, "${"):
			return nil, fmt.Errorf("secret %q: the %s has a reference without a value", s.Name, field)
		case env.Redact(text) != text:
			return nil, fmt.Errorf("secret %q: the %s contains a secret or a token of the task, and other users can read it: use another value",
				s.Name, field)
		case strings.ContainsFunc(text, unicode.IsControl):
			return nil, fmt.Errorf("secret %q: the %s has a control character", s.Name, field)
		case strings.HasPrefix(text, "-"):
			return nil, fmt.Errorf("secret %q: the %s begins with a dash, so that a plugin could read it as an option", s.Name, field)
		}
	}
	return &out, nil
}
