"""The offline mode of the libraries while the Hub does not answer."""

from threading import Event, Thread

from huggingface_hub import constants

from contradiction.io import hub


def test_without_the_hub_overlapping_blocks_stay_offline_until_the_last_one_ends(monkeypatch):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")  # nothing answers there
    monkeypatch.setattr(hub, "_last_check", None)
    entered, may_end = Event(), Event()

    def first():
        with hub.quick_hub():
            entered.set()
            may_end.wait(30)

    thread = Thread(target=first)
    thread.start()
    assert entered.wait(30)
    with hub.quick_hub():
        may_end.set()
        thread.join()
        assert constants.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE
