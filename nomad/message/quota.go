package message

import "github.com/open-nomad/open-nomad/nomad/quota"

// QuotaListRequest is the request of Quota.List and Quota.Usages.
type QuotaListRequest struct {
	QueryOptions
}

// QuotaListResponse is the reply of Quota.List.
type QuotaListResponse struct {
	Quotas []*quota.Spec
	QueryMeta
}

// QuotaUsageListResponse is the reply of Quota.Usages.
type QuotaUsageListResponse struct {
	Usages []*quota.Usage
	QueryMeta
}

// QuotaSpecificRequest is the request of Quota.Get and Quota.Usage.
type QuotaSpecificRequest struct {
	Name string
	QueryOptions
}

// SingleQuotaResponse is the reply of Quota.Get.
type SingleQuotaResponse struct {
	Quota *quota.Spec
	QueryMeta
}

// SingleQuotaUsageResponse is the reply of Quota.Usage.
type SingleQuotaUsageResponse struct {
	Usage *quota.Usage
	QueryMeta
}

// QuotaUpsertRequest is the request of Quota.Upsert and its log entry.
type QuotaUpsertRequest struct {
	Quotas []*quota.Spec
	WriteRequest
}

// QuotaDeleteRequest is the request of Quota.Delete and its log entry.
type QuotaDeleteRequest struct {
	Names []string
	WriteRequest
}
