"""The short names of rtcstats files of version 3: methods, types and properties of stats objects."""

from __future__ import annotations


def _numbered(*runs: tuple[int, str]) -> dict[str, str]:
    """Names by number, from lists of consecutive names with the number of the first."""
    return {str(first + index): name for first, names in runs for index, name in enumerate(names.split())}


METHODS: dict[str, str] = {
    **dict.fromkeys(("g", "1"), "getStats"),
    "23": "onsignalingstatechange",
    "24": "oniceconnectionstatechange",
    "25": "onconnectionstatechange",
    "26": "onicegatheringstatechange",
    "36": "close",
    "39": "create",
    **dict.fromkeys(map(str, range(60, 69)), "navigator.mediaDevices."),
    **dict.fromkeys(map(str, (*range(70, 75), 80)), "MediaStreamTrack."),
}
"""By code, the methods that a trace needs, and the methods that belong to no connection."""

TYPES: dict[str, str] = _numbered(
    (
        1,
        "inbound-rtp outbound-rtp remote-inbound-rtp remote-outbound-rtp transport candidate-pair "
        "local-candidate remote-candidate data-channel peer-connection certificate media-source "
        "media-playout codec",
    )
)
"""Types of stats objects by code."""

PROPERTIES: dict[str, str] = {"t": "timestamp"} | _numbered(
    (4, "payloadType transportId mimeType clockRate channels sdpFmtpLine ssrc kind codecId"),
    (
        14,
        "packetsReceived packetsLost jitter trackIdentifier mid remoteId framesDecoded "
        "keyFramesDecoded framesDropped frameWidth frameHeight framesPerSecond qpSum "
        "totalDecodeTime totalInterFrameDelay totalSquaredInterFrameDelay pauseCount "
        "totalPausesDuration freezeCount totalFreezesDuration lastPacketReceivedTimestamp "
        "headerBytesReceived packetsDiscarded fecPacketsReceived fecPacketsDiscarded "
        "fecBytesReceived fecSsrc bytesReceived nackCount firCount pliCount totalProcessingDelay "
        "estimatedPlayoutTimestamp jitterBufferDelay jitterBufferTargetDelay "
        "jitterBufferEmittedCount jitterBufferMinimumDelay totalSamplesReceived concealedSamples "
        "silentConcealedSamples concealmentEvents insertedSamplesForDeceleration "
        "removedSamplesForAcceleration audioLevel totalAudioEnergy totalSamplesDuration "
        "framesReceived decoderImplementation playoutId powerEfficientDecoder "
        "framesAssembledFromMultiplePackets totalAssemblyTime contentType googTimingFrameInfo "
        "retransmittedPacketsReceived retransmittedBytesReceived rtxSsrc totalCorruptionProbability "
        "totalSquaredCorruptionProbability corruptionMeasurements localId roundTripTime "
        "totalRoundTripTime fractionLost roundTripTimeMeasurements packetsSent bytesSent "
        "mediaSourceId rid encodingIndex headerBytesSent retransmittedPacketsSent "
        "retransmittedBytesSent targetBitrate totalEncodedBytesTarget framesSent hugeFramesSent "
        "framesEncoded keyFramesEncoded totalEncodeTime totalPacketSendDelay "
        "qualityLimitationReason qualityLimitationDurations qualityLimitationResolutionChanges "
        "encoderImplementation powerEfficientEncoder active scalabilityMode remoteTimestamp "
        "reportsSent echoReturnLoss echoReturnLossEnhancement width height frames "
        "synthesizedSamplesDuration synthesizedSamplesEvents totalPlayoutDelay totalSamplesCount "
        "dataChannelsOpened dataChannelsClosed label protocol dataChannelIdentifier state "
        "messagesSent messagesReceived iceRole iceLocalUsernameFragment dtlsState iceState "
        "selectedCandidatePairId localCertificateId remoteCertificateId tlsVersion dtlsCipher "
        "dtlsRole srtpCipher selectedCandidatePairChanges rtcpTransportStatsId address port "
        "candidateType priority url relayProtocol foundation relatedAddress relatedPort "
        "usernameFragment tcpType networkType",
    ),
    (
        148,
        "localCandidateId remoteCandidateId nominated lastPacketSentTimestamp currentRoundTripTime "
        "availableOutgoingBitrate availableIncomingBitrate requestsReceived requestsSent "
        "responsesReceived responsesSent consentRequestsSent packetsDiscardedOnSend "
        "bytesDiscardedOnSend",
    ),
    (
        163,
        "fingerprint fingerprintAlgorithm base64Certificate issuerCertificateId psnrMeasurements "
        "psnrSum packetsReceivedWithEct1 packetsReceivedWithCe packetsReportedAsLost "
        "packetsReportedAsLostButRecovered packetsWithBleachedEct1Marking packetsSentWithEct1 "
        "ccfbMessagesSent ccfbMessagesReceived",
    ),
)
"""Names of properties by code. Other keys are names already."""
