package httpapi

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/open-nomad/open-nomad/command/agent/httpapi/web"
	"github.com/open-nomad/open-nomad/nomad"
	"github.com/open-nomad/open-nomad/nomad/apierror"
	"github.com/open-nomad/open-nomad/nomad/message"
)

// autopilotRoutes returns the routes of the Autopilot configuration and of server health.
func (s *Server) autopilotRoutes() []web.Route {
	const path = "/v1/operator/autopilot/configuration"
	return []web.Route{
		{
			Methods: "GET",
			Path:    path,
			Handle:  web.Read("Operator.AutopilotGetConfiguration", web.NoFields[message.GenericRequest], autopilotShown),
		},
		{Methods: "PUT POST", Path: path,
			Call: web.Write("Operator.AutopilotSetConfiguration", autopilotConfig, func(done *bool) (any, error) { return *done, nil })},
		{Methods: "GET", Path: "/v1/operator/autopilot/health", Handle: s.serverHealth},
	}
}

// autopilotJSON is nomad.AutopilotConfig with durations as strings.
type autopilotJSON struct {
	CleanupDeadServers      bool
	LastContactThreshold    jsonDuration
	MaxTrailingLogs         uint64
	MinQuorum               uint
	ServerStabilizationTime jsonDuration
	EnableRedundancyZones   bool
	DisableUpgradeMigration bool
	EnableCustomUpgrades    bool
	CreateIndex             uint64
	ModifyIndex             uint64
}

// jsonDuration is a duration as a string. Integers are decoded as nanoseconds.
type jsonDuration string

func durationText(d time.Duration) jsonDuration { return jsonDuration(d.String()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *jsonDuration) UnmarshalJSON(data []byte) error {
	var nanoseconds int64
	if json.Unmarshal(data, &nanoseconds) == nil {
		*d = durationText(time.Duration(nanoseconds))
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	if text == "" {
		text = "0s"
	}
	_, err := time.ParseDuration(text)
	*d = jsonDuration(text)
	return err
}

// duration returns the parsed duration, 0 for an empty string. UnmarshalJSON has validated the
// text.
func (d jsonDuration) duration() time.Duration {
	parsed, _ := time.ParseDuration(string(d))
	return parsed
}

func autopilotShown(c *nomad.AutopilotConfig) (any, error) {
	return &autopilotJSON{CleanupDeadServers: c.CleanupDeadServers, LastContactThreshold: durationText(c.LastContactThreshold),
		MaxTrailingLogs: c.MaxTrailingLogs, MinQuorum: c.MinQuorum, ServerStabilizationTime: durationText(c.ServerStabilizationTime),
		EnableRedundancyZones: c.EnableRedundancyZones, DisableUpgradeMigration: c.DisableUpgradeMigration,
		EnableCustomUpgrades: c.EnableCustomUpgrades, CreateIndex: c.CreateIndex, ModifyIndex: c.ModifyIndex}, nil
}

// autopilotConfig reads the configuration from the body and the check-and-set index from the query.
func autopilotConfig(r *web.Request, q *message.AutopilotSetConfigRequest) error {
	var in autopilotJSON
	if err := r.Decode(&in); err != nil {
		return err
	}
	q.Config = nomad.AutopilotConfig{CleanupDeadServers: in.CleanupDeadServers, LastContactThreshold: in.LastContactThreshold.duration(),
		MaxTrailingLogs: in.MaxTrailingLogs, MinQuorum: in.MinQuorum, ServerStabilizationTime: in.ServerStabilizationTime.duration(),
		EnableRedundancyZones: in.EnableRedundancyZones, DisableUpgradeMigration: in.DisableUpgradeMigration,
		EnableCustomUpgrades: in.EnableCustomUpgrades}
	if !r.Query.Has("cas") {
		return nil
	}
	index, err := r.Number("cas")
	if err != nil || index < 0 {
		return apierror.Errorf(http.StatusBadRequest, "Error parsing cas value %q: use the ModifyIndex of the configuration", r.Query.Get("cas"))
	}
	q.Config.ModifyIndex, q.CAS = uint64(index), true
	return nil
}

// healthJSON is message.OperatorHealthReply with strings in place of enumerations and durations.
type healthJSON struct {
	Healthy                    bool
	FailureTolerance           int
	Servers                    []serverHealthJSON
	Leader                     string
	Voters                     []string
	ReadReplicas               []string `codec:",omitempty"`
	OptimisticFailureTolerance int      `codec:",omitempty"`
	Warnings                   []string `codec:",omitempty"`
	Unserved                   []string `codec:",omitempty"`
}

type serverHealthJSON struct {
	ID          string
	Name        string
	Address     string
	SerfStatus  string
	Version     string
	Leader      bool
	LastContact string
	LastTerm    uint64
	LastIndex   uint64
	Healthy     bool
	Voter       bool
	StableSince time.Time
}

// serverHealth returns the health of the servers. The status is 429 if any server is unhealthy. A
// leader of another build does not report unserved features: this agent then adds those of its
// own server.
func (s *Server) serverHealth(r *web.Request) (any, error) {
	show := func(h *message.OperatorHealthReply) (any, error) {
		out := &healthJSON{Healthy: h.Healthy, FailureTolerance: h.FailureTolerance, Leader: h.Leader, Voters: h.Voters,
			ReadReplicas: h.ReadReplicas, OptimisticFailureTolerance: h.OptimisticFailureTolerance,
			Warnings: h.Warnings, Unserved: h.Unserved}
		if len(out.Unserved) == 0 && s.cfg.Unserved != nil && r.Region() == s.cfg.Region {
			out.Unserved = s.cfg.Unserved()
		}
		for _, m := range h.Servers {
			out.Servers = append(out.Servers, serverHealthJSON{ID: m.ID, Name: m.Name, Address: m.Address, SerfStatus: m.SerfStatus.String(),
				Version: m.Version, Leader: m.Leader, LastContact: m.LastContact.String(), LastTerm: m.LastTerm, LastIndex: m.LastIndex,
				Healthy: m.Healthy, Voter: m.Voter, StableSince: m.StableSince})
		}
		if !h.Healthy {
			r.Reply.Header().Set("Content-Type", "application/json")
			r.Reply.WriteHeader(http.StatusTooManyRequests)
		}
		return out, nil
	}
	return web.Read("Operator.ServerHealth", web.NoFields[message.GenericRequest], show)(r)
}
