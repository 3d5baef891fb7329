package operator

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/open-nomad/open-nomad/client/state"
	"github.com/open-nomad/open-nomad/command/term"
	"github.com/open-nomad/open-nomad/internal/pattern"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/message"
)

func clientStateCommand() term.Command {
	return term.Command{
		Name: "operator client-state", Args: "<data dir>", MinArgs: 1, MaxArgs: 1, Local: true,
		Short: "Show the stored state of a stopped client as JSON",
		Long: "The client must be stopped. The command reads its state.db and does not change it. <data dir> is the " +
			"data_dir of its agent, or its state directory. " +
			"Tokens and environments of tasks are not printed: an identity is shown by its claims and its expiration.",
		Setup: func(*term.Flags) term.Run {
			return func(_ context.Context, e *term.Env) error {
				c, err := state.Read(e.Arg(0))
				if err != nil {
					return fmt.Errorf("Error reading client state: %w", err)
				}
				text, err := shownState(c)
				if err != nil {
					return fmt.Errorf("Error encoding client state: %w", err)
				}
				e.Println(text)
				return nil
			}
		},
	}
}

// clientState is the output of operator client-state.
type clientState struct {
	Allocations  map[string]shownAlloc
	NodeIdentity any // claims, nil without an identity
}

type shownAlloc struct {
	Alloc        *nomad.Allocation
	DeployStatus *nomad.AllocDeploymentStatus
	Identities   []shownIdentity
	Networks     any
	Volumes      any
	Tasks        map[string]shownTask
}

// shownIdentity is a signed identity without its token.
type shownIdentity struct {
	message.WorkloadIdentityRequest
	Expiration time.Time
	Claims     any
}

type shownTask struct {
	LocalState  *state.LocalState
	RemoteState *nomad.TaskState
	// DriverState is the size of the state of the driver. Only the driver can decode it.
	DriverState *driverState
}

type driverState struct {
	Driver string
	Bytes  int
}

// token matches a JWT in any text.
var token = pattern.Lazy(`ey[\w-]{10,}\.[\w-]+\.[\w-]+`)

// shownState returns one line of JSON without tokens.
func shownState(c *state.Contents) (string, error) {
	out := clientState{Allocations: map[string]shownAlloc{}, NodeIdentity: claimsOf(c.Node.Reveal())}
	for id, a := range c.Allocs {
		one := shownAlloc{Alloc: a.Alloc, DeployStatus: a.Deploy, Networks: a.Networks, Volumes: a.Volumes, Tasks: map[string]shownTask{}}
		for name := range a.Alloc.SignedIdentities {
			a.Alloc.SignedIdentities[name] = redactedText
		}
		for _, i := range a.Identities {
			one.Identities = append(one.Identities,
				shownIdentity{WorkloadIdentityRequest: i.WorkloadIdentityRequest, Expiration: i.Expiration, Claims: claimsOf(i.JWT)})
		}
		for name, t := range a.Tasks {
			one.Tasks[name] = shownTaskOf(t)
		}
		out.Allocations[id] = one
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(out); err != nil {
		return "", err
	}
	return token().ReplaceAllString(strings.TrimSuffix(b.String(), "\n"), redactedText), nil
}

// shownTaskOf returns the state of a task without the values that hooks put in its environment, which
// include tokens, and without the state of the driver.
func shownTaskOf(t state.Task) shownTask {
	out := shownTask{LocalState: t.Local, RemoteState: t.State}
	if t.Local == nil {
		return out
	}
	for _, h := range t.Local.Hooks {
		if h == nil {
			continue
		}
		for k := range h.Env {
			h.Env[k] = redactedText
		}
		for k := range h.Data {
			h.Data[k] = redactedText
		}
	}
	if h := t.Local.TaskHandle; h != nil {
		out.DriverState = &driverState{Driver: h.Driver, Bytes: len(h.State)}
		h.State = nil
	}
	return out
}

// claimsOf returns the claims of a token without verifying it, or nil if it is not a JWT.
func claimsOf(jwt string) any {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims map[string]any
	if err != nil || json.Unmarshal(raw, &claims) != nil {
		return nil
	}
	return claims
}
