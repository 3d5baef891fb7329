package httpclient

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/open-nomad/open-nomad/api"
)

const autopilotPath = "/v1/operator/autopilot/configuration"

// AutopilotGetConfiguration returns the configuration of autopilot.
func (o *Operator) AutopilotGetConfiguration(q *QueryOptions) (*api.AutopilotConfiguration, *api.QueryMeta, error) {
	return get[*api.AutopilotConfiguration](o.client, autopilotPath, q)
}

// AutopilotSetConfiguration stores the configuration of autopilot.
func (o *Operator) AutopilotSetConfiguration(conf *api.AutopilotConfiguration, q *WriteOptions) (*api.WriteMeta, error) {
	var done bool
	return o.client.put(autopilotPath, conf, &done, q)
}

// AutopilotCASConfiguration stores the configuration of autopilot if the stored index is
// conf.ModifyIndex. It reports whether it was stored.
func (o *Operator) AutopilotCASConfiguration(conf *api.AutopilotConfiguration, q *WriteOptions) (bool, *api.WriteMeta, error) {
	var done bool
	meta, err := o.client.put(autopilotPath+"?cas="+strconv.FormatUint(conf.ModifyIndex, 10), conf, &done, q)
	return done, meta, err
}

// AutopilotServerHealth returns the health of the servers. Unhealthy servers are not an
// error.
func (o *Operator) AutopilotServerHealth(q *QueryOptions) (*api.OperatorHealthReply, *api.QueryMeta, error) {
	out, meta, err := get[*api.OperatorHealthReply](o.client, "/v1/operator/autopilot/health", q)
	var refused UnexpectedResponseError
	if errors.As(err, &refused) && refused.StatusCode() == http.StatusTooManyRequests {
		out = &api.OperatorHealthReply{}
		if json.Unmarshal([]byte(refused.Body()), out) == nil && !out.Healthy && len(out.Servers) > 0 {
			return out, &api.QueryMeta{}, nil
		}
	}
	return out, meta, err
}
