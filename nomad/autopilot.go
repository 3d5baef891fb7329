package nomad

import (
	"strconv"
	"time"
)

// AutopilotConfig configures how the leader manages the servers of its region.
type AutopilotConfig struct {
	CleanupDeadServers      bool
	ServerStabilizationTime time.Duration
	LastContactThreshold    time.Duration
	MaxTrailingLogs         uint64
	MinQuorum               uint
	EnableRedundancyZones   bool
	DisableUpgradeMigration bool
	EnableCustomUpgrades    bool
	CreateIndex             uint64
	ModifyIndex             uint64
}

// DefaultAutopilotConfig returns the initial configuration of a region.
func DefaultAutopilotConfig() AutopilotConfig {
	return AutopilotConfig{CleanupDeadServers: true, ServerStabilizationTime: 10 * time.Second,
		LastContactThreshold: 200 * time.Millisecond, MaxTrailingLogs: 250}
}

// MemberStatus is the numeric status of a gossip member.
type MemberStatus int

// The numbers of MemberStatus.
const (
	MemberNone    MemberStatus = 0
	MemberAlive   MemberStatus = 1
	MemberLeaving MemberStatus = 2
	MemberLeft    MemberStatus = 3
	MemberFailed  MemberStatus = 4
)

var memberStatuses = map[MemberStatus]string{
	MemberNone: "none", MemberAlive: "alive", MemberLeaving: "leaving", MemberLeft: "left", MemberFailed: "failed",
}

// MemberStatusOf returns the number for a status name, as used in ServerMember.
func MemberStatusOf(name string) MemberStatus {
	for status, known := range memberStatuses {
		if known == name {
			return status
		}
	}
	return MemberNone
}

func (s MemberStatus) String() string {
	if name, ok := memberStatuses[s]; ok {
		return name
	}
	return "unknown status " + strconv.Itoa(int(s))
}

// ServerHealth is the health of one server. LastContact is negative if the server never had contact with
// a leader or did not answer.
type ServerHealth struct {
	ID          string
	Name        string
	Address     string
	SerfStatus  MemberStatus
	Version     string
	Leader      bool
	LastContact time.Duration
	LastTerm    uint64
	LastIndex   uint64
	Healthy     bool
	Voter       bool
	StableSince time.Time
}
