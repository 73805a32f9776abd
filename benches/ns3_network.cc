// Runs NewReno flows of ns-3 over a network that a file describes: what `python -m benches.constellation_ns3` compares
// with. Prints what each flow and each link carried in each interval.
//
// ns3_network FILE SECONDS INTERVAL
//
// FILE has one thing per line; nodes are numbers from 0 on, times are in s, delays in ns:
//   segment BYTES                   of all flows
//   nodes COUNT
//   link A B MBPS PACKETS DELAY     both directions, each with a drop-tail queue; MBPS 0: neither a rate nor a queue
//   flow A B START
//   route TIME NODE TARGET NEXT     from TIME on, NODE sends packets for TARGET to NEXT
//   delay TIME A B DELAY            the new delay of a link, in both directions
//   outage FROM UNTIL A B           packets that B would receive from A meanwhile are lost

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

using namespace ns3;

const double UNLIMITED_MBPS = 100'000;
const uint32_t UNLIMITED_PACKETS = 10'000'000;
// Settings of TCP as in Hypatia: snkas/basic-sim, commit 3b32597c, tcp-optimizer.cc.
const uint32_t FIRST_WINDOW = 10, SOCKET_BYTES = 1 << 25;

struct End {
    Ptr<PointToPointNetDevice> device;
    uint32_t interface;
};

using Ends = std::pair<uint32_t, uint32_t>;  // from a node to its neighbour

static uint32_t segment_bytes;
static NodeContainer nodes;
static std::vector<Ipv4Address> addresses;  // of each node: that of its first link
static std::map<Ends, End> ends;
static std::map<Ends, uint64_t> sent_bytes;  // by links with a rate
static std::map<Ends, std::vector<uint64_t>> sent_per_interval;

static void Sent(Ends at, Ptr<const Packet> packet) { sent_bytes[at] += packet->GetSize(); }

static void SetRoute(uint32_t node, uint32_t target, uint32_t next) {
    Ptr<Ipv4StaticRouting> table = Ipv4StaticRoutingHelper().GetStaticRouting(nodes.Get(node)->GetObject<Ipv4>());
    for (uint32_t i = table->GetNRoutes(); i-- > 0;) {
        if (table->GetRoute(i).IsHost() && table->GetRoute(i).GetDest() == addresses[target]) table->RemoveRoute(i);
    }
    table->AddHostRouteTo(addresses[target], ends.at({node, next}).interface);
}

static void SetDelay(uint32_t a, uint32_t b, int64_t delay_ns) {
    ends.at({a, b}).device->GetChannel()->SetAttribute("Delay", TimeValue(NanoSeconds(delay_ns)));
}

static void SetLoss(uint32_t a, uint32_t b, double share) {
    Ptr<RateErrorModel> losses = CreateObject<RateErrorModel>();
    losses->SetUnit(RateErrorModel::ERROR_UNIT_PACKET);
    losses->SetRate(share);
    ends.at({b, a}).device->SetReceiveErrorModel(losses);
}

static void AddLink(uint32_t a, uint32_t b, double mbps, uint32_t packets, int64_t delay_ns) {
    static Ipv4AddressHelper subnets("10.0.0.0", "255.255.255.252");
    PointToPointHelper helper;
    const uint64_t rate = (mbps > 0 ? mbps : UNLIMITED_MBPS) * 1e6;
    const uint32_t most = mbps > 0 ? packets : UNLIMITED_PACKETS;
    helper.SetDeviceAttribute("DataRate", DataRateValue(DataRate(rate)));
    helper.SetChannelAttribute("Delay", TimeValue(NanoSeconds(delay_ns)));
    helper.SetQueue("ns3::DropTailQueue", "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, most)));
    NetDeviceContainer link = helper.Install(nodes.Get(a), nodes.Get(b));
    Ipv4InterfaceContainer interfaces = subnets.Assign(link);
    subnets.NewNetwork();
    TrafficControlHelper().Uninstall(link);
    const Ends ways[] = {{a, b}, {b, a}};
    for (uint32_t i = 0; i < 2; i++) {
        const Ends way = ways[i];
        ends[way] = {DynamicCast<PointToPointNetDevice>(link.Get(i)), interfaces.Get(i).second};
        if (addresses[way.first] == Ipv4Address()) addresses[way.first] = interfaces.GetAddress(i);
        if (mbps > 0) {
            sent_bytes[way] = 0;
            ends[way].device->TraceConnectWithoutContext("PhyTxBegin", MakeBoundCallback(&Sent, way));
        }
    }
}

static Ptr<PacketSink> AddFlow(uint32_t number, uint32_t a, uint32_t b, double start_s) {
    const uint16_t port = 5000 + number;
    PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), port));
    ApplicationContainer receiver = sink.Install(nodes.Get(b));
    BulkSendHelper bulk("ns3::TcpSocketFactory", InetSocketAddress(addresses[b], port));
    bulk.SetAttribute("SendSize", UintegerValue(segment_bytes));
    bulk.Install(nodes.Get(a)).Start(Seconds(start_s));
    return DynamicCast<PacketSink>(receiver.Get(0));
}

static std::vector<Ptr<PacketSink>> ReadNetwork(std::ifstream &in) {
    std::vector<Ptr<PacketSink>> sinks;
    std::string what;
    double from_s, until_s, mbps;
    uint32_t a, b, c;
    int64_t delay_ns;
    while (in >> what) {
        if (what == "segment" && in >> segment_bytes) {
            Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(segment_bytes));
        } else if (what == "nodes" && in >> a) {
            nodes.Create(a);
            addresses.resize(a);
            InternetStackHelper stack;
            Ipv4StaticRoutingHelper routing;
            stack.SetIpv6StackInstall(false);
            stack.SetRoutingHelper(routing);
            stack.Install(nodes);
        } else if (what == "link" && in >> a >> b >> mbps >> c >> delay_ns) {
            AddLink(a, b, mbps, c, delay_ns);
        } else if (what == "flow" && in >> a >> b >> from_s) {
            sinks.push_back(AddFlow(sinks.size(), a, b, from_s));
        } else if (what == "route" && in >> from_s >> a >> b >> c) {
            Simulator::Schedule(Seconds(from_s), &SetRoute, a, b, c);
        } else if (what == "delay" && in >> from_s >> a >> b >> delay_ns) {
            Simulator::Schedule(Seconds(from_s), &SetDelay, a, b, delay_ns);
        } else if (what == "outage" && in >> from_s >> until_s >> a >> b) {
            Simulator::Schedule(Seconds(from_s), &SetLoss, a, b, 1.0);
            Simulator::Schedule(Seconds(until_s), &SetLoss, a, b, 0.0);
        } else {
            std::cerr << "error: not a network: " << what << "\n";
            std::exit(2);
        }
    }
    return sinks;
}

int main(int argc, char **argv) {
    if (argc != 4) {
        std::cerr << "ns3_network FILE SECONDS INTERVAL\n";
        return 2;
    }
    std::ifstream in(argv[1]);
    const double seconds = std::atof(argv[2]), interval_s = std::atof(argv[3]);
    Config::SetDefault("ns3::TcpL4Protocol::SocketType", TypeIdValue(TcpNewReno::GetTypeId()));
    Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(FIRST_WINDOW));
    Config::SetDefault("ns3::TcpSocketBase::ClockGranularity", TimeValue(NanoSeconds(1)));
    for (auto buffer : {"ns3::TcpSocket::SndBufSize", "ns3::TcpSocket::RcvBufSize"}) {
        Config::SetDefault(buffer, UintegerValue(SOCKET_BYTES));
    }
    const std::vector<Ptr<PacketSink>> sinks = ReadNetwork(in);
    const int intervals = seconds / interval_s + 0.5;
    std::vector<std::vector<uint64_t>> received(sinks.size());
    for (int i = 1; i <= intervals; i++) {
        Simulator::Schedule(Seconds(i * interval_s), [&, i] {
            for (uint32_t k = 0; k < sinks.size(); k++) received[k].push_back(sinks[k]->GetTotalRx());
            for (auto &[way, bytes] : sent_bytes) sent_per_interval[way].push_back(bytes);
            if (i * 10 % intervals < 10) std::cerr << "  ns-3: " << i * interval_s << " of " << seconds << " s\n";
        });
    }
    Simulator::Stop(Seconds(seconds + interval_s / 2));
    Simulator::Run();
    for (uint32_t k = 0; k < sinks.size(); k++) {
        std::cout << "flow " << k;
        for (uint64_t bytes : received[k]) std::cout << " " << bytes;
        std::cout << "\n";
    }
    for (auto &[way, counts] : sent_per_interval) {
        std::cout << "link " << way.first << " " << way.second;
        for (uint64_t bytes : counts) std::cout << " " << bytes;
        std::cout << "\n";
    }
    Simulator::Destroy();
}
