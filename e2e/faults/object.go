//go:build linux

package faults

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/open-nomad/open-nomad/api"
)

// seen is a client's view of an object: a value, and the index for a compare-and-set. The zero
// value means that the object does not exist.
type seen struct {
	value int64
	index uint64
}

// errRefused means that a compare-and-set did not find the expected value.
var errRefused = errors.New("refused: the object is another")

// object is a server object with a value.
type object interface {
	read(ctx context.Context, c *api.Client, stale bool) (seen, error)
	cas(ctx context.Context, c *api.Client, was seen, value int64) (seen, error)
	write(ctx context.Context, c *api.Client, value int64) (seen, error)
}

// valueKey is the key of the value in a job or a variable.
const valueKey = "value"

// job is a job without tasks to run; its registration is the compare-and-set.
type job string

func (j job) read(ctx context.Context, c *api.Client, stale bool) (seen, error) {
	is, _, err := c.Jobs().Info(string(j), (&api.QueryOptions{AllowStale: stale}).WithContext(ctx))
	var status api.UnexpectedResponseError
	if errors.As(err, &status) && status.StatusCode() == http.StatusNotFound {
		return seen{}, nil
	}
	if err != nil {
		return seen{}, err
	}
	value, err := strconv.ParseInt(is.Meta[valueKey], 10, 64)
	if err != nil || is.JobModifyIndex == nil {
		return seen{}, fmt.Errorf("job %s has no value: %w", j, err)
	}
	return seen{value, *is.JobModifyIndex}, nil
}

func (j job) cas(ctx context.Context, c *api.Client, was seen, value int64) (seen, error) {
	return j.register(ctx, c, value, &api.RegisterOptions{EnforceIndex: true, ModifyIndex: was.index})
}

func (j job) write(ctx context.Context, c *api.Client, value int64) (seen, error) {
	return j.register(ctx, c, value, &api.RegisterOptions{})
}

func (j job) register(ctx context.Context, c *api.Client, value int64, o *api.RegisterOptions) (seen, error) {
	id, kind, count := string(j), "service", 0
	spec := &api.Job{ID: &id, Name: &id, Type: &kind, Meta: map[string]string{valueKey: strconv.FormatInt(value, 10)},
		TaskGroups: []*api.TaskGroup{{Name: &id, Count: &count,
			Tasks: []*api.Task{{Name: "t", Driver: "mock_driver", Config: map[string]any{"run_for": "1s"}}}}}}
	out, _, err := c.Jobs().RegisterOpts(spec, o, (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		if strings.Contains(err.Error(), api.RegisterEnforceIndexErrPrefix) {
			return seen{}, errRefused
		}
		return seen{}, err
	}
	return seen{value, out.JobModifyIndex}, nil
}

// variable is a variable by its path; its value is an item.
type variable string

func (v variable) read(ctx context.Context, c *api.Client, stale bool) (seen, error) {
	is, _, err := c.Variables().Read(string(v), (&api.QueryOptions{AllowStale: stale}).WithContext(ctx))
	switch {
	case errors.Is(err, api.ErrVariablePathNotFound):
		return seen{}, nil
	case err != nil:
		return seen{}, err
	}
	return v.seen(is)
}

func (v variable) seen(is *api.Variable) (seen, error) {
	value, err := strconv.ParseInt(is.Items[valueKey], 10, 64)
	if err != nil {
		return seen{}, fmt.Errorf("variable %s has no value: %w", v, err)
	}
	return seen{value, is.ModifyIndex}, nil
}

func (v variable) cas(ctx context.Context, c *api.Client, was seen, value int64) (seen, error) {
	next := v.with(value)
	next.ModifyIndex = was.index
	is, _, err := c.Variables().CheckedUpdate(next, (&api.WriteOptions{}).WithContext(ctx))
	var conflict api.ErrCASConflict
	switch {
	case errors.As(err, &conflict):
		return seen{}, errRefused
	case err != nil:
		return seen{}, err
	}
	return v.seen(is)
}

func (v variable) write(ctx context.Context, c *api.Client, value int64) (seen, error) {
	is, _, err := c.Variables().Create(v.with(value), (&api.WriteOptions{}).WithContext(ctx))
	if err != nil {
		return seen{}, err
	}
	return v.seen(is)
}

func (v variable) with(value int64) *api.Variable {
	return &api.Variable{Path: string(v), Items: api.VariableItems{valueKey: strconv.FormatInt(value, 10)}}
}

// certainlyNot reports whether an error proves that the request had no effect: it was never sent,
// or the servers report that no leader accepted it.
func certainlyNot(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	var status api.UnexpectedResponseError
	if !errors.As(err, &status) {
		return false
	}
	return strings.Contains(status.Body(), "No cluster leader") || strings.Contains(status.Body(), "Not ready to serve consistent reads")
}
