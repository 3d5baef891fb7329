package consul

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/hashicorp/consul/api"
)

// Limits of Each. A registration of a client has at most 256 KiB, and thousands of them may be on a node.
const (
	maxValue  = 4 << 20 // bytes of one value
	maxValues = 100_000
	maxList   = 256 << 20 // bytes of all values
	maxStatus = 4 << 10   // bytes of the text of an error
)

// errValues means that an answer has more values, or a longer one, than Each reads.
var errValues = fmt.Errorf("the answer of Consul has more than %d values or %d MiB, or a value above %d MiB", maxValues, maxList>>20,
	maxValue>>20)

// List is a JSON object of Consul with a value for each service or check.
type List struct {
	Agent *Agent
	Path  string
	Token string // "" is the token of this agent
}

// Each requests a list and calls fn with each of its values. Only one value at a time
// is in memory, and the limit of the answer is high: it has what all jobs and other programs have registered, and none of
// them may make it unreadable for the others.
func Each[T any](ctx context.Context, l List, fn func(key string, v *T)) error {
	resp, err := l.get(ctx)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
		if err != nil {
			return err
		}
		return api.StatusError{Code: resp.StatusCode, Body: string(text)}
	}
	body := &limitedBody{&limitedBody{resp.Body, maxList}, maxValue}
	d := json.NewDecoder(&objects{from: body, left: maxValues * 20})
	switch begin, err := d.Token(); {
	case err != nil:
		return reason(ctx, err)
	case begin == nil:
		return nil
	case begin != json.Delim('{'):
		return errMalformed
	}
	for n := 0; d.More(); n++ {
		key, err := d.Token()
		if err != nil {
			return reason(ctx, err)
		}
		name, ok := key.(string)
		if !ok || n == maxValues {
			return errValues
		}
		v := new(T)
		if err := d.Decode(v); err != nil {
			return reason(ctx, err)
		}
		fn(name, v)
		body.remaining = maxValue
	}
	if _, err := d.Token(); err != nil {
		return reason(ctx, err)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxStatus)) // the end, so that the connection is used again
	return err
}

// get requests a list as the library does.
func (l List) get(ctx context.Context) (*http.Response, error) {
	c := l.Agent.current.Load()
	cfg, query := &c.settings.HTTP, url.Values{}
	for name, value := range map[string]string{"ns": cfg.Namespace, "partition": cfg.Partition, "dc": cfg.Datacenter} {
		if value != "" {
			query.Set(name, value)
		}
	}
	req, err := c.request(ctx, l.Path, query, cmp.Or(l.Token, cfg.Token))
	if err != nil {
		return nil, err
	}
	return c.stream.Do(req)
}

// reason replaces the error of a limit, and of an answer that ended with ctx.
func reason(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errTooLarge) || errors.Is(err, errObjects):
		return errValues
	}
	return err
}
