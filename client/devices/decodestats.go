package devices

import (
	"maps"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/open-nomad/open-nomad/nomad/message"
	"github.com/open-nomad/open-nomad/plugins/proto"
	"github.com/open-nomad/open-nomad/plugins/wire"
)

// Limits of the statistics of one instance.
const (
	maxStats = 256 // values and nested objects
	maxDepth = 4
)

// decodeStats returns the statistics of a message. What exceeds a limit is omitted.
func decodeStats(m *proto.StatsResponse) (out []*message.DeviceGroupStats) {
	left := maxInstances
	for _, g := range m.GetGroups()[:min(len(m.GetGroups()), maxGroups)] {
		if checkName(g.GetVendor()) != nil || checkName(g.GetType()) != nil || checkName(g.GetName()) != nil {
			continue
		}
		group := &message.DeviceGroupStats{Vendor: g.GetVendor(), Type: g.GetType(), Name: g.GetName(),
			InstanceStats: map[string]*message.DeviceStats{}}
		for _, id := range slices.Sorted(maps.Keys(g.GetInstanceStats())) {
			if left == 0 || checkName(id) != nil {
				continue
			}
			left--
			group.InstanceStats[id] = statsOf(g.GetInstanceStats()[id])
		}
		out = append(out, group)
	}
	return out
}

func statsOf(m *proto.DeviceStats) *message.DeviceStats {
	out := &message.DeviceStats{Timestamp: wire.DecodeTime(m.GetTimestamp())}
	if out.Timestamp.IsZero() {
		out.Timestamp = time.Now()
	}
	if m.GetSummary() != nil {
		out.Summary = valueOf(m.GetSummary())
	}
	if m.GetStats() != nil {
		left := maxStats
		out.Stats = objectOf(m.GetStats(), maxDepth, &left)
	}
	return out
}

// objectOf decodes a tree with at most left values and the given depth.
func objectOf(m *proto.StatObject, depth int, left *int) *message.StatObject {
	out := &message.StatObject{}
	for _, key := range slices.Sorted(maps.Keys(m.GetAttributes())) {
		if *left == 0 || checkName(key) != nil {
			continue
		}
		*left--
		if out.Attributes == nil {
			out.Attributes = map[string]*message.StatValue{}
		}
		out.Attributes[key] = valueOf(m.GetAttributes()[key])
	}
	for _, key := range slices.Sorted(maps.Keys(m.GetNested())) {
		if *left == 0 || depth == 0 || checkName(key) != nil {
			continue
		}
		*left--
		if out.Nested == nil {
			out.Nested = map[string]*message.StatObject{}
		}
		out.Nested[key] = objectOf(m.GetNested()[key], depth-1, left)
	}
	return out
}

func valueOf(m *proto.StatValue) *message.StatValue {
	out := &message.StatValue{FloatNumeratorVal: finite(m.GetFloatNumeratorVal()), FloatDenominatorVal: finite(m.GetFloatDenominatorVal()),
		Unit: wire.Clip(m.GetUnit()), Desc: wire.Clip(m.GetDesc())}
	if v := m.GetIntNumeratorVal(); v != nil {
		out.IntNumeratorVal = &v.Value
	}
	if v := m.GetIntDenominatorVal(); v != nil {
		out.IntDenominatorVal = &v.Value
	}
	if v := m.GetStringVal(); v != nil {
		text := wire.Clip(v.GetValue())
		out.StringVal = &text
	}
	if v := m.GetBoolVal(); v != nil {
		out.BoolVal = &v.Value
	}
	return out
}

// finite returns a number that JSON can hold, else nil.
func finite(m *wrapperspb.DoubleValue) *float64 {
	if m == nil || math.IsNaN(m.GetValue()) || math.IsInf(m.GetValue(), 0) {
		return nil
	}
	v := m.GetValue()
	return &v
}
