// Package wire converts the values of package drivers from and to the messages of the plugin
// protocol. In a client, plugins/host uses it; in a driver's program, plugins/serve does.
//
//	client: drivers.TaskConfig ──Encode──▶ proto.TaskConfig ──▶ driver
//	driver: drivers.Fingerprint ──Encode──▶ proto.FingerprintResponse ──▶ client
//
// The messages of a plugin are not trusted: texts are clipped and lists have limits. So a faulty plugin
// can fill neither the state of the servers nor the memory of the agent. The package has no state and
// no goroutine.
package wire

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/open-nomad/open-nomad/plugins/drivers"
	"github.com/open-nomad/open-nomad/plugins/proto"
)

// The versions of the protocol that this project has.
const (
	ProtocolVersion = 2        // of the handshake
	APIVersion      = "v0.1.0" // of the service Driver
)

// The variable and the value by which a plugin recognises that a client has started it. They are not
// secret.
const (
	CookieKey   = "NOMAD_PLUGIN_MAGIC_COOKIE"
	CookieValue = "e4327c2e01eabfd75a8a67adb114fb34a757d57eee7728d857a8cec6e91a7255"
)

// Limits of what a plugin sends.
const (
	MaxMessage    = 8 << 20 // bytes of one message
	maxText       = 1 << 10 // bytes of a description, a message or an error
	maxAttributes = 256
	maxKey        = 256
	maxValue      = 4 << 10
)

// Clip returns the text of a plugin: one line of valid UTF-8 without control characters, within the limit.
func Clip(text string) string { return clip(text, maxText) }

func clip(text string, limit int) string {
	text = strings.ToValidUTF8(text, "?")
	text = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == 0x7f:
			return '?'
		}
		return r
	}, text)
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "..."
}

// texts returns a map of a plugin within the limits. The names that come last in the alphabet are
// dropped.
func texts(given map[string]string) map[string]string {
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if len(out) >= maxAttributes {
			break
		}
		if key != "" && len(key) <= maxKey && utf8.ValidString(key) {
			out[key] = clip(given[key], maxValue)
		}
	}
	return out
}

// EncodeFingerprint returns the message of a fingerprint.
func EncodeFingerprint(f drivers.Fingerprint) *proto.FingerprintResponse {
	out := &proto.FingerprintResponse{HealthDescription: f.Description, Attributes: map[string]*proto.Attribute{}}
	switch f.Health {
	case drivers.HealthHealthy:
		out.Health = proto.FingerprintResponse_HEALTHY
	case drivers.HealthUnhealthy:
		out.Health = proto.FingerprintResponse_UNHEALTHY
	case drivers.HealthUndetected:
		out.Health = proto.FingerprintResponse_UNDETECTED
	}
	for name, value := range f.Attributes {
		out.Attributes[name] = &proto.Attribute{Value: &proto.Attribute_StringVal{StringVal: value}}
	}
	return out
}

// DecodeFingerprint returns the fingerprint of a message. An error of the plugin makes the driver
// unhealthy.
func DecodeFingerprint(m *proto.FingerprintResponse) drivers.Fingerprint {
	given := map[string]string{}
	for name, a := range m.GetAttributes() {
		given[name] = attribute(a)
	}
	f := drivers.Fingerprint{Health: drivers.HealthUnhealthy, Description: Clip(m.GetHealthDescription()), Attributes: texts(given)}
	switch {
	case m.GetErr() != "":
		f.Description = Clip(m.GetErr())
	case m.GetHealth() == proto.FingerprintResponse_HEALTHY:
		f.Health = drivers.HealthHealthy
	case m.GetHealth() == proto.FingerprintResponse_UNDETECTED:
		f.Health = drivers.HealthUndetected
	}
	return f
}

// attribute returns the text of an attribute, followed by its unit.
func attribute(a *proto.Attribute) string {
	switch v := a.GetValue().(type) {
	case *proto.Attribute_StringVal:
		return v.StringVal
	case *proto.Attribute_BoolVal:
		return strconv.FormatBool(v.BoolVal)
	case *proto.Attribute_IntVal:
		return strconv.FormatInt(v.IntVal, 10) + a.GetUnit()
	case *proto.Attribute_FloatVal:
		return strconv.FormatFloat(v.FloatVal, 'f', -1, 64) + a.GetUnit()
	}
	return ""
}

var isolations = map[drivers.FSIsolation]proto.DriverCapabilities_FSIsolation{
	drivers.FSIsolationNone:   proto.DriverCapabilities_NONE,
	drivers.FSIsolationChroot: proto.DriverCapabilities_CHROOT,
	drivers.FSIsolationImage:  proto.DriverCapabilities_IMAGE,
	drivers.FSIsolationUnveil: proto.DriverCapabilities_UNVEIL,
}

var networks = map[string]proto.NetworkIsolationSpec_NetworkIsolationMode{
	drivers.NetworkHost:  proto.NetworkIsolationSpec_HOST,
	drivers.NetworkGroup: proto.NetworkIsolationSpec_GROUP,
}

// EncodeCapabilities returns the message of a driver's capabilities.
func EncodeCapabilities(c drivers.Capabilities) *proto.DriverCapabilities {
	out := &proto.DriverCapabilities{
		SendSignals: c.SendSignals, Exec: c.Exec, FsIsolation: isolations[c.FSIsolation], MustCreateNetwork: c.MustCreateNetwork,
		MountConfigs: proto.DriverCapabilities_NO_MOUNTS, DisableLogCollection: c.NoLogs, DynamicWorkloadUsers: c.DynamicWorkloadUsers,
	}
	if c.Mounts {
		out.MountConfigs = proto.DriverCapabilities_ANY_MOUNTS
	}
	for _, n := range c.Networks {
		out.NetworkIsolationModes = append(out.NetworkIsolationModes, networks[n])
	}
	return out
}

// DecodeCapabilities returns the capabilities of a message. Every external driver gets devices and
// DNS settings. A kind of isolation that the protocol does not have is an error.
func DecodeCapabilities(m *proto.DriverCapabilities) (drivers.Capabilities, error) {
	c := drivers.Capabilities{
		SendSignals: m.GetSendSignals(), Exec: m.GetExec(), MustCreateNetwork: m.GetMustCreateNetwork(), NoLogs: m.GetDisableLogCollection(),
		DynamicWorkloadUsers: m.GetDynamicWorkloadUsers(), Mounts: m.GetMountConfigs() == proto.DriverCapabilities_ANY_MOUNTS,
		Devices: true, DNS: true,
	}
	if c.Mounts { // the protocol does not tell more
		c.Propagations, c.SELinux = []string{drivers.PropagateToTask, drivers.PropagateBoth}, true
	}
	for kind, number := range isolations {
		if number == m.GetFsIsolation() {
			c.FSIsolation = kind
		}
	}
	if c.FSIsolation == "" {
		return c, fmt.Errorf("capabilities: unknown file system isolation %d", m.GetFsIsolation())
	}
	for name, number := range networks {
		if slices.Contains(m.GetNetworkIsolationModes(), number) {
			c.Networks = append(c.Networks, name)
		}
	}
	slices.Sort(c.Networks)
	return c, nil
}

// EncodeExit returns the message of an exit, and the text of its error.
func EncodeExit(r *drivers.ExitResult) (*proto.ExitResult, string) {
	out := &proto.ExitResult{ExitCode: int32(r.ExitCode), Signal: int32(r.Signal), OomKilled: r.OOMKilled}
	if r.Err != nil {
		return out, r.Err.Error()
	}
	return out, ""
}

// DecodeExit returns the exit of a message, nil for none.
func DecodeExit(m *proto.ExitResult) *drivers.ExitResult {
	if m == nil {
		return nil
	}
	return &drivers.ExitResult{ExitCode: int(m.GetExitCode()), Signal: int(m.GetSignal()), OOMKilled: m.GetOomKilled()}
}

// EncodeEvent returns the message of a task's event.
func EncodeEvent(e *drivers.TaskEvent) *proto.DriverTaskEvent {
	alloc, rest, _ := strings.Cut(e.TaskID, "/")
	task, _, _ := strings.Cut(rest, "/")
	return &proto.DriverTaskEvent{TaskId: e.TaskID, AllocId: alloc, TaskName: task, Timestamp: EncodeTime(e.At), Message: e.Message,
		Annotations: e.Details}
}

// DecodeEvent returns the event of a message.
func DecodeEvent(m *proto.DriverTaskEvent) *drivers.TaskEvent {
	return &drivers.TaskEvent{TaskID: m.GetTaskId(), At: DecodeTime(m.GetTimestamp()), Message: Clip(m.GetMessage()),
		Details: texts(m.GetAnnotations())}
}

// EncodeNetwork returns the message of a task's network, nil for none.
func EncodeNetwork(n *drivers.TaskNetwork) *proto.NetworkOverride {
	if n == nil {
		return nil
	}
	out := &proto.NetworkOverride{Addr: n.IP, AutoAdvertise: n.AutoAdvertise, PortMap: map[string]int32{}}
	for label, port := range n.PortMap {
		out.PortMap[label] = int32(port)
	}
	return out
}

// DecodeNetwork returns the network of a message, nil for none.
func DecodeNetwork(m *proto.NetworkOverride) *drivers.TaskNetwork {
	if m == nil {
		return nil
	}
	n := &drivers.TaskNetwork{IP: clip(m.GetAddr(), maxKey), AutoAdvertise: m.GetAutoAdvertise(), PortMap: map[string]int{}}
	for _, label := range slices.Sorted(maps.Keys(m.GetPortMap())) {
		if len(n.PortMap) < maxAttributes && len(label) <= maxKey {
			n.PortMap[label] = int(m.GetPortMap()[label])
		}
	}
	return n
}

// EncodeGroupNetwork returns the message of an allocation's network, nil for that of the host.
func EncodeGroupNetwork(n *drivers.GroupNetwork) *proto.NetworkIsolationSpec {
	if n == nil || n.Path == "" && len(n.Labels) == 0 {
		return nil
	}
	return &proto.NetworkIsolationSpec{Mode: proto.NetworkIsolationSpec_GROUP, Path: n.Path, Labels: n.Labels}
}

// DecodeGroupNetwork returns the network of a message, nil for that of the host.
func DecodeGroupNetwork(m *proto.NetworkIsolationSpec) *drivers.GroupNetwork {
	if m == nil || m.GetMode() == proto.NetworkIsolationSpec_HOST && m.GetPath() == "" {
		return nil
	}
	return &drivers.GroupNetwork{Path: m.GetPath(), Labels: texts(m.GetLabels())}
}

// EncodeTime returns the message of a time, nil for the zero time.
func EncodeTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// DecodeTime returns the time of a message. One that is not set or out of range is the zero time.
func DecodeTime(m *timestamppb.Timestamp) time.Time {
	if m == nil || !m.IsValid() {
		return time.Time{}
	}
	return m.AsTime()
}

// EncodeDuration returns the message of a duration.
func EncodeDuration(d time.Duration) *durationpb.Duration { return durationpb.New(d) }

// DecodeDuration returns the duration of a message: 0 if it is not set, the longest one if it is too
// long.
func DecodeDuration(m *durationpb.Duration) time.Duration {
	if m == nil {
		return 0
	}
	return min(max(m.AsDuration(), 0), math.MaxInt64)
}
